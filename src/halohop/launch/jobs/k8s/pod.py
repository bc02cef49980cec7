"""What each pod of trainers runs: the service that holds its runner, and in the first pod also the launcher of the job.

``python -m halohop.launch.jobs.k8s.pod JOB``, with the job as text.
"""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from halohop.errors import ClusterError, HalohopError, InputError
from halohop.launch.jobs.crew.running import run_once
from halohop.launch.jobs.crew.way import Host
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.job_text import parse_job
from halohop.launch.jobs.k8s.messages import KINDS, RUNNER_PORT, WAITING, Dismiss, Ping, Pong
from halohop.launch.jobs.k8s.options import Options, options_of
from halohop.launch.jobs.k8s.pod_names import JOB_INDEX, JOB_UID, server_addresses, trainer_addresses
from halohop.launch.jobs.k8s.script import FOLDER
from halohop.launch.jobs.k8s.service import PodService
from halohop.launch.jobs.k8s.way import Pods
from halohop.launch.jobs.last_message import say
from halohop.launch.jobs.lock import alone_in
from halohop.launch.jobs.plan import resuming
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.refusal import exit_code
from halohop.launch.terminal.signals import EXIT_RESUMABLE, Resumable
from halohop.transport import Codec, Identity, load_token, serve

_DRAIN_S = 5.0
"""Longest wait for the launcher to close its connection."""
_SOON_S = 5.0
"""How soon pods answer that are there."""


def main(text: str) -> int:
    """Returns the exit code of the pod: 0, 1 or 2 as a command, 75 or 143 for a pod that Kubernetes is to replace."""
    logs.configure(logging.WARNING)
    service = PodService()
    signal.signal(signal.SIGTERM, service.terminate)
    try:
        job = _in_pod(parse_job(text))
        options, token, uid = options_of(job), load_token(), os.environ.get(JOB_UID, "")
        if token is None:
            raise InputError(f"the Secret {options.secret!r} has no token; put one under its key 'token'")
        address, identity = f"0.0.0.0:{RUNNER_PORT}", Identity(dataset=uid)
        with serve(service.answer, codec=Codec(KINDS), token=token, bind=address, waiting=WAITING, identity=identity) as listener:
            if os.environ[JOB_INDEX] == "0":
                return _lead(job, options, Pods(token=token, uid=uid), service)
            code = service.until_dismissed(2 * options.start_seconds)  # the first pod knows first which pods are missing
            listener.drain(_DRAIN_S)
            return code
    except HalohopError as error:
        say(str(error))
        return exit_code(error)


def _in_pod(job: Job) -> Job:
    """Returns the job as this pod sees it: the folder of its image, where a script that a ConfigMap brings finds modules."""
    job = resuming(replace(job, folder=str(Path.cwd())))  # this pod may replace another
    if not (job.run and job.run[0].startswith(f"{FOLDER}/")):
        return job
    path = job.env.get("PYTHONPATH", os.environ.get("PYTHONPATH"))
    return replace(job, env={**job.env, "PYTHONPATH": os.pathsep.join(filter(None, (path, job.folder)))})


def _lead(job: Job, options: Options, pods: Pods, service: PodService) -> int:
    """Runs the job to its end in all pods, and returns the exit code of this one. All ranks start again after up to `retries`
    failures, and whenever Kubernetes has replaced a pod, which Kubernetes counts.

    Raises:
        HalohopError: the job failed, or pods do not answer.
    """
    hosts = [
        Host(name=address.partition(".")[0], address=address, python=job.python, folder=job.folder, data=job.data, env=job.env)
        for address in trainer_addresses(job)
    ]
    failures, error, at_failure = 0, None, dict[str, Pong]()
    with alone_in(Path(job.out) / "logs"):
        while True:
            identities = _wait_for(pods, hosts, options.start_seconds, error)
            if error is not None:
                failures += identities == at_failure  # else Kubernetes has replaced a pod, and counts it
                if failures > options.retries:
                    raise error
                say(f"{error}\nthe job starts again")
            try:
                console = Console(file=sys.stdout, soft_wrap=True)
                run_once(job, hosts, pods, console, apart=server_addresses(job), with_token=False)
                break
            except Resumable:
                error, at_failure = ClusterError("ranks were asked to end; those that saved resume from there"), {}
            except ClusterError as failure:
                error, at_failure = failure, identities
            if service.is_terminating:
                return EXIT_RESUMABLE
    service.dismiss()
    for name, lost in pods.call_all(hosts, Dismiss(), options.start_seconds)[1].items():
        say(f"{name} did not receive the end of the job: {lost}")
    return 0


def _wait_for(pods: Pods, hosts: Sequence[Host], seconds: float, error: ClusterError | None) -> dict[str, Pong]:
    """Waits until all pods answer, some of which an error may have ended; returns their identities by their names.

    Raises:
        ClusterError: some do not answer in time; names them.
    """
    found, missing = pods.call_all(hosts, Ping(), min(seconds, _SOON_S))
    if missing and error is not None:
        say(f"{error}\nwaiting for {', '.join(missing)}")
    if missing:
        found, missing = pods.call_all(hosts, Ping(), seconds)
    if missing:
        raise ClusterError(
            f"pods of the job did not answer within {seconds:g} s (start_seconds in [k8s]): "
            + "; ".join(f"{name}: {lost}" for name, lost in missing.items())
        )
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
