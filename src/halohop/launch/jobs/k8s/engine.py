"""The engine `k8s`: a job as manifests of Kubernetes' core kinds, for `kubectl apply`."""

import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NoReturn

from halohop.errors import InputError
from halohop.launch.jobs.engine import Engine
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.k8s.documents import yaml_of
from halohop.launch.jobs.k8s.options import Options
from halohop.launch.jobs.k8s.pods import Object, Pods, Setting
from halohop.launch.jobs.k8s.serving import DEFAULTS, INDEX, serving
from halohop.launch.jobs.k8s.training import INDEX as JOB_INDEX
from halohop.launch.jobs.k8s.training import training
from halohop.launch.jobs.plan import Plan, plan
from halohop.launch.jobs.tables import convert
from halohop.launch.terminal.console import Console

_SERVER_INDEX = "HALOHOP_SERVER"


def engine() -> Engine:
    return Kubernetes()


class Kubernetes:
    """Prints manifests; the cluster is the user's, and kubectl talks to it."""

    def plan(self, job: Job) -> Plan:
        """
        Raises:
            InputError: what a job asks for that pods cannot have.
        """
        objects(job)
        return plan_of(job)

    def show(self, job: Job) -> str:
        """
        Raises:
            InputError: what a job asks for that pods cannot have, or PyYAML is missing.
        """
        name = job.name
        about = (
            f"# halohop job {name}. The Secret {_options(job).secret!r} with the key 'token' must be there.\n"
            f"# kubectl apply -f FILE; kubectl logs -f job/{name}-trainers; kubectl delete -f FILE\n"
        )
        return about + yaml_of(objects(job))

    def run(self, job: Job, console: Console) -> NoReturn:
        """
        Raises:
            InputError: always; names what runs the job.
        """
        objects(job)
        raise InputError(
            "the engine k8s prints manifests, and kubectl runs them: halohop launch ... --print | kubectl apply -f -; "
            f"then kubectl logs -f job/{job.name}-trainers"
        )


def objects(job: Job) -> list[Object]:
    """The objects of a job: those of its servers, then those of its trainers.

    Raises:
        InputError: what a job asks for that pods cannot have.
    """
    options = _options(job)
    made = plan_of(job)
    setting = Setting(
        job=made.job,
        options=options,
        python="python" if job.python == sys.executable else job.python,
        folder=_folder(job, options),
    )
    _check(setting, made)
    found: list[Object] = []
    if made.job.servers is not None:
        servers = Pods(setting=setting, part="servers", processes=made.servers, number=_SERVER_INDEX, source=INDEX)
        found += serving(servers, made.job.servers, _name(job, "servers"))
    trainers = Pods(setting=setting, part="trainers", processes=made.trainers, number=JOB_INDEX)
    return [*found, *training(trainers, made, _name(job, "trainers"))]


def plan_of(job: Job) -> Plan:
    """The processes of a job on pods, by the names that pods have in addresses.

    Raises:
        InputError: hosts are named, which Kubernetes chooses.
    """
    if not isinstance(job.hosts, int):
        raise InputError(
            f"hosts={', '.join(job.hosts)}: Kubernetes chooses the hosts; give the number of pods (hosts = {job.num_hosts}), and "
            "node_selector in [k8s] for the kind of nodes"
        )
    servers = job.servers
    if servers is not None:
        servers = replace(servers, options={**DEFAULTS, **servers.options})
        count = len(servers.shares) or servers.count or job.hosts
    homes = () if servers is None else _pods(job, "servers", count)
    return plan(replace(job, servers=servers), _pods(job, "trainers", job.hosts), apart=homes)


def _options(job: Job) -> Options:
    return convert(job.options, Options, "[k8s]")


def _name(job: Job, part: str) -> str:
    return f"{job.name}-{part}"


def _pods(job: Job, part: str, count: int) -> tuple[str, ...]:
    """Names of pods: those of a StatefulSet and of an Indexed Job are alike, below the Service that has their name."""
    name = _name(job, part)
    return tuple(f"{name}-{number}.{name}" for number in range(count))


def _folder(job: Job, options: Options) -> str:
    """The working directory: the job's, unless that is just the launcher's, which no pod has."""
    shared = bool(options.claim) and PurePosixPath(job.folder).is_relative_to(options.mount)
    return job.folder if shared or job.folder != str(Path.cwd()) else ""


def _check(setting: Setting, made: Plan) -> None:
    options, job = setting.options, made.job
    if job.name[0].isdigit():
        raise InputError(f"name={job.name!r} begins with a digit, which the name of a Service in Kubernetes must not")
    if job.token_file is not None:
        raise InputError(
            f"token_file={job.token_file} is a file of this machine; pods read the Secret {options.secret!r}: "
            f"kubectl create secret generic {options.secret} --from-file=token={job.token_file}, and leave token_file out"
        )
    if job.cache is not None and "{" in job.cache:
        raise InputError(f"cache={job.cache!r}: each pod has a cache of its own; leave {{host}} out")
    for name, value in job.env.items():
        if name in (_SERVER_INDEX, JOB_INDEX):
            raise InputError(f"{name} in env is the number of a pod, which Kubernetes gives it; leave it out")
        if "\0" in value:
            raise InputError(f"the value of {name} in env holds a zero byte, which no environment can")
    shared = {"out": job.out, **({} if job.cache or not job.data else {"data": job.data})}
    for name, path in shared.items():
        if not options.claim:
            raise InputError(
                f"{name}={path!r} is on no volume; name the PersistentVolumeClaim that all pods mount (claim in [k8s])"
            )
        if not PurePosixPath(path).is_relative_to(options.mount):
            raise InputError(
                f"{name}={path!r} is not below {options.mount}, where pods mount the claim {options.claim!r}; give a folder "
                "there, or another mount in [k8s]"
            )
