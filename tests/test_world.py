import sys
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import InputError
from halohop.world import World, trainers_here


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


@st.composite
def layouts(draw: st.DrawFn) -> list[int]:
    """How many ranks each host has."""
    return draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))


def ranks_of(layout: list[int]) -> list[World]:
    """Every rank of the hosts, ranks in the order of hosts."""
    size, places = sum(layout), [(host, local) for host, count in enumerate(layout) for local in range(count)]
    return [
        World(rank=rank, size=size, host=host, num_hosts=len(layout), local_rank=local, local_size=layout[host])
        for rank, (host, local) in enumerate(places)
    ]


def slurms(world: World, tasks_per_node: str, prefix: str = "SLURM_") -> dict[str, str]:
    values = {"PROCID": world.rank, "LOCALID": world.local_rank, "NODEID": world.host}
    sizes = {"SLURM_STEP_NUM_TASKS" if prefix == "SLURM_STEP_" else "SLURM_NTASKS": world.size} | {"SLURM_STEP_ID": 0}
    return {f"SLURM_{name}": str(value) for name, value in values.items()} | {
        **{name: str(value) for name, value in sizes.items()},
        f"{prefix}TASKS_PER_NODE": tasks_per_node,
    }


@given(layouts(), st.sampled_from(["SLURM_", "SLURM_STEP_"]))
def test_tasks_of_slurm_on_hosts_of_any_sizes(layout: list[int], prefix: str) -> None:
    for world in ranks_of(layout):
        env = slurms(world, ",".join(map(str, layout)), prefix)
        assert World.detect(env) == world
        assert trainers_here(env) == world.local_size


def test_a_step_of_slurm_goes_before_its_job() -> None:
    """`srun --ntasks 3` in a job of 8 tasks."""
    world = ranks_of([2, 1])[2]
    env = slurms(world, "2,1", "SLURM_STEP_") | {"SLURM_NTASKS": "8", "SLURM_TASKS_PER_NODE": "4(x2)"}
    assert World.detect(env) == world
    assert World.detect(slurms(ranks_of([2, 2, 2, 1])[6], "2(x3),1")).local_size == 1


def test_slurm_that_does_not_say_where_tasks_are() -> None:
    env = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}
    assert World.detect(env) == World(rank=3, size=4)
    assert not World.detect(env).hosts_known


@given(layouts())
def test_torchrun_on_hosts_of_any_sizes(layout: list[int]) -> None:
    """Also inside of a job of Slurm: the innermost launcher counts."""
    for world in ranks_of(layout):
        env = {
            **{"RANK": world.rank, "WORLD_SIZE": world.size, "LOCAL_RANK": world.local_rank},
            **{"LOCAL_WORLD_SIZE": world.local_size, "GROUP_RANK": world.host, "GROUP_WORLD_SIZE": world.num_hosts},
        }
        text = {name: str(value) for name, value in env.items()}
        assert World.detect(text) == World.from_env(text | {"SLURM_NTASKS": "64", "SLURM_PROCID": "0"}) == world


@given(layouts())
def test_no_hosts_are_made_up(layout: list[int]) -> None:
    """Ray says on which node a rank is, and how many ranks are there, but not how many nodes there are."""
    for world in ranks_of(layout):
        env = {
            **{"RANK": world.rank, "WORLD_SIZE": world.size, "LOCAL_RANK": world.local_rank},
            **{"LOCAL_WORLD_SIZE": world.local_size, "NODE_RANK": world.host},
        }
        found = World.detect({name: str(value) for name, value in env.items()})
        assert (found.rank, found.size, found.local_rank, found.local_size) == (
            *(world.rank, world.size),
            *(world.local_rank, world.local_size),
        )
        assert found.hosts_known == (len(layout) == 1)
        assert found.num_hosts == 1


def test_hosts_that_cannot_be_even_are_not_made_up() -> None:
    for rank, local_rank, local_size in ((2, 2, 3), (3, 0, 2)):
        env = {"RANK": rank, "WORLD_SIZE": 4, "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": local_size}
        assert not World.from_env({name: str(value) for name, value in env.items()}).hosts_known


@pytest.mark.parametrize("names", [("OMPI_COMM_WORLD_", "RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"), None])
def test_ranks_of_mpi(names) -> None:
    keys = (
        [f"{names[0]}{name}" for name in names[1:]] if names else ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"]
    )
    env = dict(zip(keys, ("3", "4", "0", "1"), strict=True))
    assert World.detect(env) == World(rank=3, size=4)
    assert trainers_here(env) == 1
    started_by_srun = slurms(ranks_of([1] * 4)[3], "1(x4)")
    assert World.detect(env | started_by_srun).num_hosts == 4
    inside_a_batch_script = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": "4"}
    assert World.detect(env | inside_a_batch_script).rank == 3


def test_pods_of_an_indexed_job() -> None:
    env = {"JOB_COMPLETION_INDEX": "2", "WORLD_SIZE": "3"}
    assert World.detect(env) == World(rank=2, size=3, host=2, num_hosts=3)
    assert trainers_here(env) == 1
    torchrun = {"RANK": "5", "WORLD_SIZE": "6", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert World.detect(env | torchrun) == World.from_env(torchrun)
    with pytest.raises(InputError, match=r"JOB_COMPLETION_INDEX=2 .* set WORLD_SIZE to the Job's completions"):
        World.detect({"JOB_COMPLETION_INDEX": "2"})


def a_worker_of_ray(size: int | None) -> SimpleNamespace:
    numbers = {"get_world_rank": 2, "get_world_size": size, "get_local_rank": 0, "get_local_world_size": 1, "get_node_rank": 1}
    context = SimpleNamespace(**{name: lambda value=value: value for name, value in numbers.items()})
    return SimpleNamespace(get_context=lambda: context)


def test_a_worker_of_ray_train(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no process group of torch is asked for, Ray sets no variables."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setitem(sys.modules, "ray.train", a_worker_of_ray(3))
    assert World.detect() == World(rank=2, size=3)
    monkeypatch.setitem(sys.modules, "ray.train", a_worker_of_ray(None))  # the driver, before version 2 of Ray Train
    assert World.detect() == World()

    def refuse() -> None:
        raise RuntimeError("`get_context` has been called outside of a Ray Train worker")

    monkeypatch.setitem(sys.modules, "ray.train", SimpleNamespace(get_context=refuse))
    assert World.detect() == World()


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"SLURM_NTASKS": "4"}, "SLURM_NTASKS=4"),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "1"}, "SLURM_NTASKS=4"),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_SIZE=2"),
        ({"PMI_SIZE": "2"}, "PMI_SIZE=2"),
        ({"JOB_COMPLETION_INDEX": "0"}, "JOB_COMPLETION_INDEX=0"),
    ],
)
def test_one_of_several_tasks_is_not_taken_for_the_only_one(env: dict[str, str], named: str) -> None:
    with pytest.raises(InputError, match=f"{named} says that this is one of several tasks.* use World.detect"):
        World.from_env(env)
    assert World.from_env(env | {"RANK": "0", "WORLD_SIZE": "1"}) == World()


def test_one_task_of_slurm_is_alone() -> None:
    assert World.from_env({"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}) == World()
    assert World.from_env({"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}) == World()
    assert World.detect({"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}) == World()


BATCH = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0"}
"""What Slurm 22.05 sets in a batch script: a number as of a task, and no step."""


def test_a_batch_script_of_slurm_is_no_task_of_its_job() -> None:
    """`python train.py` without srun, once: it would wait for the other ranks, or train without them."""
    for counts in ({"SLURM_NTASKS": "1", "SLURM_TASKS_PER_NODE": "1"}, {"SLURM_TASKS_PER_NODE": "64"}, {}):
        assert World.detect(BATCH | counts) == World()
        assert trainers_here(BATCH | counts) == 1
    several = {"SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_NNODES": "2"}
    shell_of_salloc = {name: value for name, value in BATCH.items() if name != "SLURM_PROCID"}
    for env in (BATCH | several, shell_of_salloc | several):
        with pytest.raises(InputError, match=r"SLURM_NTASKS=4 says that this job has several tasks.* start it with srun"):
            World.detect(env)
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}
    assert World.detect(BATCH | several | step) == World(rank=0, size=4, num_hosts=2, local_size=2)
    assert World.detect(BATCH | several | {"RANK": "0", "WORLD_SIZE": "1"}) == World()


def test_what_of_hosts_is_known() -> None:
    assert World().hosts_known
    assert World(rank=1, size=2, local_rank=1, local_size=2).hosts_known
    assert World(rank=1, size=2, host=1, num_hosts=2).hosts_known
    assert not World(rank=1, size=2).hosts_known
