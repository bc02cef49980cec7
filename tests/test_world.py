from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import InputError
from halohop.world import World


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A rank of a world with the same number of trainers on every host."""
    num_hosts, local_size = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    host, local_rank = draw(st.integers(0, num_hosts - 1)), draw(st.integers(0, local_size - 1))
    return World(
        rank=host * local_size + local_rank,
        size=num_hosts * local_size,
        host=host,
        num_hosts=num_hosts,
        local_rank=local_rank,
        local_size=local_size,
    )


@given(worlds())
def test_from_what_torchrun_sets(world: World) -> None:
    env = {
        "RANK": world.rank,
        "WORLD_SIZE": world.size,
        "LOCAL_RANK": world.local_rank,
        "LOCAL_WORLD_SIZE": world.local_size,
        "GROUP_RANK": world.host,
        "GROUP_WORLD_SIZE": world.num_hosts,
    }
    assert World.from_env({name: str(value) for name, value in env.items()}) == world


@given(worlds())
def test_hosts_follow_from_the_local_size(world: World) -> None:
    """Launchers that know nothing of groups: ranks lie host by host."""
    env = {"RANK": str(world.rank), "WORLD_SIZE": str(world.size), "LOCAL_WORLD_SIZE": str(world.local_size)}
    assert World.from_env(env) == world


@given(worlds())
def test_without_local_size_all_ranks_share_a_host(world: World) -> None:
    alone = World.from_env({"RANK": str(world.rank), "WORLD_SIZE": str(world.size)})
    assert (alone.num_hosts, alone.host, alone.local_rank, alone.local_size) == (1, 0, world.rank, world.size)


def test_hosts_with_different_numbers_of_trainers() -> None:
    """Three trainers on the first host, one on the second: the launcher's group rank counts, not our arithmetic."""
    env = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2"}
    world = World.from_env(env)
    assert (world.host, world.num_hosts, world.local_rank) == (1, 2, 0)


def test_no_launcher_means_alone() -> None:
    assert World.from_env({}) == World()


def test_reads_the_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GROUP_RANK", raising=False)
    monkeypatch.delenv("GROUP_WORLD_SIZE", raising=False)
    assert World.from_env() == World(rank=1, size=2, local_rank=1, local_size=2)


@pytest.mark.parametrize("text", ["", "two", "1.5", "0x1"])
def test_variable_that_is_no_number(text: str) -> None:
    with pytest.raises(InputError, match="environment variable RANK="):
        World.from_env({"RANK": text})


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"RANK": "4", "WORLD_SIZE": "4"}, "rank=4"),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, "rank=-1"),
        ({"WORLD_SIZE": "0"}, "rank=0"),
        ({"LOCAL_WORLD_SIZE": "0"}, "local_rank=0"),
        ({"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, "local_rank=2"),
        ({"GROUP_RANK": "1", "GROUP_WORLD_SIZE": "1"}, "host=1"),
    ],
)
def test_rank_outside_its_world(env: dict[str, str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        World.from_env(env)


def test_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        World().rank = 1  # type: ignore[misc]


def test_a_rank_of_several_must_know_which_it_is():
    with pytest.raises(InputError, match="WORLD_SIZE=2, but RANK is not set"):
        World.from_env({"WORLD_SIZE": "2"})
