"""The engine `k8s`: a job as objects of Kubernetes' core kinds, which kubectl creates, watches and deletes."""

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from halohop.errors import InputError
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.k8s.kubectl import Kubectl
from halohop.launch.jobs.k8s.manifests import DEFAULTS, manifests
from halohop.launch.jobs.k8s.messages import RUNNER_PORT
from halohop.launch.jobs.k8s.options import Options, options_of
from halohop.launch.jobs.k8s.pod_names import JOB_INDEX, JOB_UID, SERVER_INDEX, server_addresses, trainer_addresses
from halohop.launch.jobs.k8s.script import script_of, with_script
from halohop.launch.jobs.k8s.submitting import hints, must_bring, submitted
from halohop.launch.jobs.k8s.template import Object, yaml_of
from halohop.launch.jobs.k8s.watching import Patience, Watch
from halohop.launch.jobs.lock import alone_in
from halohop.launch.jobs.plan import Plan, plan
from halohop.launch.jobs.plan_file import write_plan
from halohop.launch.jobs.secret import secret_of
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
            f"# halohop job {name}. The Secret {options_of(job).secret!r} with the key 'token' must be there.\n"
            f"# kubectl apply -f FILE; kubectl logs -f job/{name}-trainers; kubectl delete -f FILE\n"
        )
        return about + yaml_of(objects(job))

    def run(self, job: Job, console: Console) -> None:
        """Runs a job to its end, and deletes what it made. Logs of all pods are kept here. SIGHUP does not end the job.

        Raises:
            InputError: kubectl is missing or refuses; what the job needs is not there; pods cannot start as they are asked for.
            ClusterError: pods did not start in time, or the API server does not answer: then the job goes on.
            JobFailedError: the job failed; names the rank or the pod, and shows the end of its log.
        """
        options = options_of(job)
        made, wanted = plan_of(job), objects(job, replace(options, ttl_seconds=options.ttl_seconds or _TTL_S))
        token, here = secret_of(job), _folder_here(job, options)
        kubectl = Kubectl(command=tuple(shlex.split(options.command)), namespace=options.namespace)
        with alone_in(here):
            if str(here) == job.out:
                write_plan(made)
            brings = must_bring(kubectl, job, options)
            with submitted(kubectl, wanted, job, options, token if brings else None, console) as uid:
                console.print(
                    f"job {job.name} is submitted; logs of its ranks: {job.out}/logs, of its pods: {here}/pods",
                    hints(kubectl, job),
                    sep="\n",
                    soft_wrap=True,
                )
                Watch(kubectl, job, uid, options, here / "pods", console, self.patience).until_done()


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
    options = options or options_of(job)
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
    job = replace(with_script(job, script_of(job, options_of(job))), servers=servers)
    return plan(job, trainer_addresses(job), apart=server_addresses(job))


def _folder_here(job: Job, options: Options) -> Path:
    """The run folder if this machine has the volume, too; else one of its name below `runs`."""
    return Path(job.out) if Path(options.mount).is_dir() else Path("runs", Path(job.out).name)


def _check(job: Job, options: Options) -> None:
    if job.name[0].isdigit():
        raise InputError(f"name={job.name!r} begins with a digit, which the name of a Service in Kubernetes must not")
    if job.cache is not None and "{" in job.cache:
        raise InputError(f"cache={job.cache!r}: each pod has a cache of its own; leave {{host}} out")
    if job.master_port == RUNNER_PORT:
        raise InputError(f"master_port={RUNNER_PORT} is used by the launcher; choose another port")
    for name, value in job.env.items():
        if name in (SERVER_INDEX, JOB_INDEX, JOB_UID):
            raise InputError(f"{name} in env is set for each pod; leave it out")
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
