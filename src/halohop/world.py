"""Who am I among the ranks? Pure arithmetic over the environment: nothing here starts, connects or waits."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from halohop.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A trainer's place among all trainers, and its host's place among all hosts.

    Where it is not known which ranks share a host, `host` and `num_hosts` are left out: see `hosts_known`.

    Args:
        rank, size: this trainer among all trainers.
        host, num_hosts: this host among all hosts (torchrun calls a host a node, or group).
        local_rank, local_size: this trainer among the trainers of its host.

    Example:
        >>> World().size
        1
        >>> World.from_env({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}).host
        1
    """

    rank: int = 0
    size: int = 1
    host: int = 0
    num_hosts: int = 1
    local_rank: int = 0
    local_size: int = 1

    def __post_init__(self) -> None:
        for index, count, name in (
            (self.rank, self.size, "rank"),
            (self.host, self.num_hosts, "host"),
            (self.local_rank, self.local_size, "local_rank"),
        ):
            if not 0 <= index < count:
                raise InputError(f"{name}={index} is outside 0..{count - 1}; check RANK, WORLD_SIZE and their kin")

    @property
    def hosts_known(self) -> bool:
        """Whether this says which ranks share a host: there are several hosts, or all ranks are on this one.

        Example:
            >>> World(rank=1, size=4).hosts_known, World(rank=1, size=4, host=1, num_hosts=4).hosts_known, World().hosts_known
            (False, True, True)
        """
        return self.num_hosts > 1 or self.local_size == self.size

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> "World":
        """The world that torchrun (or `halohop train`) describes in the environment; alone without it.

        Raises:
            InputError: a variable is not a whole number, a rank lies outside its world, or several tasks were started and this
                one does not know which it is.
        """
        env = os.environ if env is None else env
        if "RANK" not in env and (evidence := _several_tasks(env)):
            raise InputError(
                f"{evidence} says that this is one of several tasks, but RANK is not set, so each would be a world of its own; "
                "use World.detect(), start with torchrun, or give the World(rank=..., size=...) yourself (World() is alone)"
            )
        return _of_torchrun(env)

    @classmethod
    def detect(cls, env: Mapping[str, str] | None = None) -> "World":
        """The world that a launcher describes: torchrun, Ray Train, MPI, Slurm (`srun`) or a Kubernetes Indexed Job; else alone.

        Of several the innermost counts: RANK first, which torchrun sets inside of the others, then in the order above. Hosts may
        have different numbers of ranks. Ray and MPI do not say which ranks share a host (see `hosts_known`). A pod of an Indexed
        Job is a host; Kubernetes does not tell it how many there are, so the Job's template has to set WORLD_SIZE.

        A batch script of Slurm is no task of its job, and neither is a shell of salloc: where the job has several tasks, this
        refuses to be one of them. Where it has one, it is alone.

        Raises:
            InputError: as of `from_env`, or an Indexed Job without WORLD_SIZE.

        Example:
            >>> World.detect({"SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_TASKS_PER_NODE": "2,1", "SLURM_NODEID": "1",
            ...               "SLURM_NNODES": "2", "SLURM_LOCALID": "0"})
            World(rank=2, size=3, host=1, num_hosts=2, local_rank=0, local_size=1)
        """
        env = os.environ if env is None else env
        if "RANK" in env:
            return _of_torchrun(env)
        slurm, mpi = _of_slurm(env), _of_mpi(env)
        if mpi is not None and slurm is not None and (mpi.rank, mpi.size) == (slurm.rank, slurm.size):
            mpi = None  # they mean the same tasks, and Slurm knows their hosts
        found = _of_ray(env) or mpi or slurm or _of_kubernetes(env)
        if found is None and (evidence := _several_tasks(env)):
            raise InputError(
                f"{evidence} says that this job has several tasks, but this process is none of them: start it with srun "
                "(srun python ...), or give the World(rank=..., size=...) yourself (World() is alone)"
            )
        return found or _of_torchrun(env)


_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)
"""Open MPI, and those that come with Hydra (MPICH, Intel MPI): rank, size, local rank, local size."""


def trainers_here(env: Mapping[str, str] | None = None) -> int:
    """How many trainers share this host, as its launcher says: LOCAL_WORLD_SIZE, or else all of WORLD_SIZE.

    Raises:
        InputError: a variable is not a whole number.

    Example:
        >>> trainers_here({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}), trainers_here({})
        (4, 1)
    """
    env = os.environ if env is None else env
    if "LOCAL_WORLD_SIZE" in env:
        return _number(env, "LOCAL_WORLD_SIZE")
    if "RANK" not in env and (found := _of_mpi(env) or _of_slurm(env) or _of_kubernetes(env)):
        return found.local_size
    return _number(env, "WORLD_SIZE", 1)


def _of_torchrun(env: Mapping[str, str]) -> World:
    size, rank = _number(env, "WORLD_SIZE", 1), _number(env, "RANK", 0)
    if size > 1 and "RANK" not in env:
        raise InputError(f"WORLD_SIZE={size}, but RANK is not set; set it, or give the World(rank=..., size=...) yourself")
    local_size = _number(env, "LOCAL_WORLD_SIZE", size)
    even = max(local_size, 1)
    local_rank = _number(env, "LOCAL_RANK", rank % even)
    host, num_hosts = rank // even, max(size // even, 1)
    if "GROUP_WORLD_SIZE" in env:
        host, num_hosts = _number(env, "GROUP_RANK", host), _number(env, "GROUP_WORLD_SIZE")
    elif "NODE_RANK" in env or size % even or rank % even != local_rank:  # Ray, or hosts with different numbers of ranks
        host, num_hosts = 0, 1
    return World(rank=rank, size=size, host=host, num_hosts=num_hosts, local_rank=local_rank, local_size=local_size)


def _of_ray(env: Mapping[str, str]) -> World | None:
    """In a worker of Ray Train, which need not be installed: a worker has imported it."""
    train = sys.modules.get("ray.train") if env is os.environ else None
    if train is None:
        return None
    try:
        context = train.get_context()
        size = context.get_world_size()
    except RuntimeError:  # of Ray: this is no worker
        return None
    if size is None:
        return None
    return World(
        rank=context.get_world_rank(),
        size=size,
        local_rank=context.get_local_rank(),
        local_size=context.get_local_world_size(),
    )


def _of_mpi(env: Mapping[str, str]) -> World | None:
    for rank, size, local_rank, local_size in _MPI:
        if rank in env and size in env:
            return World(
                rank=_number(env, rank),
                size=_number(env, size),
                local_rank=_number(env, local_rank, 0),
                local_size=_number(env, local_size, 1),
            )
    return None


def _of_slurm(env: Mapping[str, str]) -> World | None:
    """A task of a job step; the variables of a step go before those of its job. A batch script has a number like a task, 0, but
    no step."""
    if "SLURM_PROCID" not in env or (env["SLURM_PROCID"] == "0" and "SLURM_STEP_ID" not in env):
        return None
    rank, size = _number(env, "SLURM_PROCID"), _number(env, _slurm_size(env), 1)
    host, local_rank = _number(env, "SLURM_NODEID", 0), _number(env, "SLURM_LOCALID", 0)
    counts = _tasks_of_nodes(env.get("SLURM_STEP_TASKS_PER_NODE", env.get("SLURM_TASKS_PER_NODE", "")))
    if sum(counts) == size and host < len(counts):
        return World(rank=rank, size=size, host=host, num_hosts=len(counts), local_rank=local_rank, local_size=counts[host])
    return World(rank=rank, size=size)


def _slurm_size(env: Mapping[str, str]) -> str:
    return "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in env else "SLURM_NTASKS"


def _tasks_of_nodes(text: str) -> list[int]:
    """
    Example:
        >>> _tasks_of_nodes("2(x3),1")
        [2, 2, 2, 1]
    """
    found = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(tasks) for tasks, times in found for _ in range(int(times or 1))]


def _of_kubernetes(env: Mapping[str, str]) -> World | None:
    if "JOB_COMPLETION_INDEX" not in env:
        return None
    rank = _number(env, "JOB_COMPLETION_INDEX")
    if "WORLD_SIZE" not in env:
        raise InputError(
            f"JOB_COMPLETION_INDEX={rank} is this pod's number, but Kubernetes does not say of how many; "
            "set WORLD_SIZE to the Job's completions, or RANK=0 and WORLD_SIZE=1 for a pod that works alone"
        )
    size = _number(env, "WORLD_SIZE")
    return World(rank=rank, size=size, host=rank, num_hosts=size)


def _several_tasks(env: Mapping[str, str]) -> str | None:
    """What in the environment says that a launcher has started several tasks."""
    if "JOB_COMPLETION_INDEX" in env:
        return f"JOB_COMPLETION_INDEX={env['JOB_COMPLETION_INDEX']}"
    names = (_slurm_size(env), "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    return next((f"{name}={env[name]}" for name in names if _number(env, name, 1) > 1), None)


def _number(env: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = env.get(name, "" if default is None else str(default))
    try:
        return int(text)
    except ValueError:
        raise InputError(f"environment variable {name}={text!r} is not a whole number") from None
