import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.ops import reference
from halohop.ops.random import MASK_64, mix

ARGUMENTS = {"seed": 3, "epoch": 1, "batch": 2, "hop": 0, "relation": ("a", "to", "b")}


def test_known_values_never_change():
    """A key that changes silently changes every published experiment."""
    assert mix(1) == 0x5692161D100B05E5  # SplitMix64's finalizer of 1
    assert ops.stream_key(**ARGUMENTS) == 0x49CBF7E1ECDE6B3E


def test_every_argument_counts():
    keys = {ops.stream_key(**ARGUMENTS)}
    for name in ("seed", "epoch", "batch", "hop"):
        keys.add(ops.stream_key(**(ARGUMENTS | {name: 7})))
    for relation in (("b", "to", "a"), ("a", "ot", "b"), ("at", "o", "b"), ("", "ato", "b")):
        keys.add(ops.stream_key(**(ARGUMENTS | {"relation": relation})))
    keys.add(ops.stream_key(seed=1, epoch=3, batch=2, hop=0, relation=("a", "to", "b")))  # the order counts too
    assert len(keys) == 10


@given(st.integers(), st.integers(), st.integers())
def test_any_integer_is_reduced_modulo_2_64(seed, epoch, batch):
    key = ops.stream_key(seed=seed, epoch=epoch, batch=batch, hop=-1, relation=("n", "to", "n"))
    assert 0 <= key < 2**64
    reduced = ops.stream_key(seed=seed & MASK_64, epoch=epoch + 2**64, batch=batch, hop=MASK_64, relation=("n", "to", "n"))
    assert key == reduced


def test_small_changes_flip_half_of_the_bits():
    flips = [
        (ops.stream_key(**(ARGUMENTS | {"batch": b})) ^ ops.stream_key(**(ARGUMENTS | {"batch": b + 1}))).bit_count()
        for b in range(500)
    ]
    assert abs(sum(flips) / len(flips) - 32) < 1
    assert min(flips) > 12


@given(st.integers(0, MASK_64), st.lists(st.integers(0, 2**63 - 1), max_size=5))
def test_fractions_are_the_references(key, ids):
    expected = [reference.fraction(key, number, 0) for number in ids]
    assert ops.fractions(key, torch.tensor(ids, dtype=torch.int64)).tolist() == expected
