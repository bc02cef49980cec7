"""Addresses of a job's pods, and the environment variables that hold their numbers."""

from halohop.launch.jobs.job import Job

SERVER_INDEX, JOB_INDEX, JOB_UID = "HALOHOP_SERVER", "JOB_COMPLETION_INDEX", "HALOHOP_JOB"
"""Environment variables with the number of a pod, and the uid of its Job. Kubernetes sets the second itself."""


def trainer_addresses(job: Job) -> tuple[str, ...]:
    """Returns the addresses of the pods of trainers."""
    return _pods(job, "trainers", job.num_hosts)


def server_addresses(job: Job) -> tuple[str, ...]:
    """Returns the addresses of the pods of servers.

    Example:
        >>> from halohop.launch.jobs.job import Servers
        >>> server_addresses(Job(name="a", hosts=2, data="/parts", out="/run", run=("train.py",), servers=Servers(count=1)))
        ('a-servers-0.a-servers',)
    """
    servers = job.servers
    return () if servers is None else _pods(job, "servers", len(servers.shares) or servers.count or job.num_hosts)


def _pods(job: Job, part: str, count: int) -> tuple[str, ...]:
    """Pods of a StatefulSet and of an Indexed Job are named alike, under a Service of that name."""
    return tuple(f"{job.name}-{part}-{number}.{job.name}-{part}" for number in range(count))
