"""An optimiser that begins to train several tables."""

import pytest

from halohop.errors import WriteError
from halohop.tables.rule_spec import RuleSpec
from tests.support.tables import SGD, Ranks, ask, make, owner_of, share, spec_of

ADAM = RuleSpec(kind="adam")


@pytest.fixture
def owner():
    owner = owner_of()
    make(owner, spec_of())
    make(owner, spec_of("y"))
    yield owner
    owner.close()


@pytest.mark.parametrize("fails", ["mean", "square"])
def test_a_table_without_room_for_its_state_leaves_the_others_as_they_were(owner, fails, monkeypatch):
    arrays = owner.catalog.get("y").pieces[-1].arrays
    add_state = arrays.add_state

    def full(name, *rest):
        if name == fails:
            raise WriteError("the disk is full")
        return add_state(name, *rest)

    monkeypatch.setattr(arrays, "add_state", full)
    before = owner.statistics()
    with pytest.raises(WriteError, match="the disk is full"):
        Ranks([owner], 1, rules=dict.fromkeys("xy", ADAM))
    assert owner.statistics() == before
    for name in "xy":
        listing = owner.catalog.get(name).listing()
        assert (listing.optimizer, listing.state) == ("", {})
    ranks = Ranks([owner], 1, rules=dict.fromkeys("xy", SGD), group="another")
    assert ask(owner, ranks.step(0, 0, share([1], 1.0), share([1], 1.0, name="y"))).applied


def test_a_table_without_room_ends_no_session(owner, monkeypatch):
    ranks = Ranks([owner], 1, rules={"x": ADAM}, sender="old")
    assert ask(owner, ranks.step(0, 0, share([1], 1.0))).applied

    def full(*_):
        raise WriteError("the disk is full")

    monkeypatch.setattr(owner.catalog.get("y").pieces[0].arrays, "add_state", full)
    with pytest.raises(WriteError, match="the disk is full"):
        Ranks([owner], 1, rules=dict.fromkeys("xy", ADAM), sender="new")
    assert ask(owner, ranks.step(0, 1, share([1], 1.0))).steps == {"x": 2}
