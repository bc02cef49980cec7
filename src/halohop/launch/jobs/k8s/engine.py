"""The engine `k8s`: a job as objects of Kubernetes' core kinds, which kubectl creates, watches and deletes."""

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from halohop.errors import InputError
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.k8s.kubectl import Kubectl
from halohop.launch.jobs.k8s.manifests import DEFAULTS, JOB_INDEX, SERVER_INDEX, manifests
from halohop.launch.jobs.k8s.options import Options
from halohop.launch.jobs.k8s.script import script_of, with_script
from halohop.launch.jobs.k8s.submitting import hints, must_bring, submitted
from halohop.launch.jobs.k8s.template import Object, yaml_of
from halohop.launch.jobs.k8s.watching import Patience, Watch
from halohop.launch.jobs.lock import alone_in
from halohop.launch.jobs.plan import Plan, plan
from halohop.launch.jobs.plan_file import write_plan
from halohop.launch.jobs.secret import secret_of
from halohop.launch.jobs.tables import convert
from halohop.launch.terminal.console import Console

_TTL_S = 600  # of a job whose launcher is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """Runs jobs with the user's kubectl and credentials.

    Args:
        patience: with the cluster.
    """

    patience: Patience = field(default_factory=Patience)

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

    def run(self, job: Job, console: Console) -> None:
        """Runs a job to its end, and deletes what it made. Logs of all pods are kept here. SIGHUP does not end the job.

        Raises:
            InputError: kubectl is missing or refuses; what the job needs is not there; pods cannot start as they are asked for.
            ClusterError: pods did not start in time, or the API server does not answer: then the job goes on.
            JobFailedError: the job failed; says which pod, and shows the end of its log.
        """
        options = _options(job)
        made, wanted = plan_of(job), objects(job, replace(options, ttl_seconds=options.ttl_seconds or _TTL_S))
        token, here = secret_of(job), _folder_here(job, options)
        kubectl = Kubectl(command=tuple(shlex.split(options.command)), namespace=options.namespace)
        with alone_in(here):
            if str(here) == job.out:
                write_plan(made)
            brings = must_bring(kubectl, job, options)
            with submitted(kubectl, wanted, job, options, token if brings else None, console) as uid:
                console.print(
                    f"job {job.name} is submitted; logs of its pods: {here}/logs", hints(kubectl, job), sep="\n", soft_wrap=True
                )
                Watch(kubectl, job, uid, options, here / "logs", console, self.patience).until_done()


def engine() -> Kubernetes:
    return Kubernetes()


def objects(job: Job, options: Options | None = None) -> list[Object]:
    """Returns the objects of a job: those of its servers, then those of its trainers.

    Args:
        job: what was asked for.
        options: in place of the job's.

    Raises:
        InputError: what a job asks for that pods cannot have.
    """
    options = options or _options(job)
    made = plan_of(job)
    _check(job, options)
    return manifests(made, options, script_of(job, options))


def plan_of(job: Job) -> Plan:
    """Returns the processes of a job on pods, by the names that pods have in addresses.

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
    job = with_script(job, script_of(job, _options(job)))
    return plan(replace(job, servers=servers), _pods(job, "trainers", job.num_hosts), apart=homes)


def _options(job: Job) -> Options:
    options = convert(job.options, Options, "[k8s]")
    return options if options.secret else replace(options, secret=f"{job.name}-token")


def _pods(job: Job, part: str, count: int) -> tuple[str, ...]:
    """Names of pods: those of a StatefulSet and of an Indexed Job are alike, below the Service that has their name."""
    return tuple(f"{job.name}-{part}-{number}.{job.name}-{part}" for number in range(count))


def _folder_here(job: Job, options: Options) -> Path:
    """The run folder if this machine has the volume, too; else one of its name below `runs`."""
    return Path(job.out) if Path(options.mount).is_dir() else Path("runs", Path(job.out).name)


def _check(job: Job, options: Options) -> None:
    if job.name[0].isdigit():
        raise InputError(f"name={job.name!r} begins with a digit, which the name of a Service in Kubernetes must not")
    if job.cache is not None and "{" in job.cache:
        raise InputError(f"cache={job.cache!r}: each pod has a cache of its own; leave {{host}} out")
    for name, value in job.env.items():
        if name in (SERVER_INDEX, JOB_INDEX):
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
