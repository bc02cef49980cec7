"""A job on the cluster for as long as a context lasts: all other objects belong to its Job, and go with it."""

import base64
import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from signal import SIGHUP
from typing import Any

from halohop.errors import ClusterError, HalohopError, InputError
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.k8s.kubectl import Kubectl
from halohop.launch.jobs.k8s.manifests import metadata
from halohop.launch.jobs.k8s.options import Options
from halohop.launch.jobs.k8s.template import Object, fill
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.signals import Stopped

_LAUNCH = "halohop/launch"
"""Label of the Job of one launch, which so deletes no other."""

_HASTE_S = 3.5
"""After a signal the command ends within `halohop.launch.terminal.signals.GRACE_S`."""


class UnansweredError(ClusterError):
    """The cluster does not answer, and the job goes on there."""


def must_bring(kubectl: Kubectl, job: Job, options: Options) -> bool:
    """Checks that the cluster has what pods need. Returns whether the Secret of the token must be made.

    Raises:
        InputError: the claim or a Secret is not there, or the Secret is there although the job has a token of its own.
    """
    secrets_there = [each for each in (*options.env_secrets, options.pull_secret) if each]
    needed = [*(f"secret/{name}" for name in secrets_there), f"persistentvolumeclaim/{options.claim}"]
    token = f"secret/{options.secret}"
    found = kubectl("get", *needed, token, "--ignore-not-found", "--output=name").split()
    if missing := [each for each in needed if each not in found]:
        raise InputError(f"the cluster has no {', '.join(missing)}, which pods need; create it, or correct its name in [k8s]")
    if "secret" not in job.options:
        return True  # what is there is of a job that ends
    if token in found and job.token_file is not None:
        raise InputError(f"the cluster has {token} already; leave token_file out, or name another secret in [k8s]")
    return token not in found


def hints(kubectl: Kubectl, job: Job) -> str:
    """What a user types to follow a job without its launcher, and to end it."""
    watch = kubectl.typed("get", "pods", f"--selector=app.kubernetes.io/instance={job.name}")
    return f"watch: {watch}\ncancel: {kubectl.typed('delete', 'job', f'{job.name}-trainers')}"


@contextmanager
def submitted(
    kubectl: Kubectl, wanted: Sequence[Object], job: Job, options: Options, token: str | None, console: Console
) -> Iterator[str]:
    """Submits a job, and deletes it at the end of the context, which gets the Job's uid.

    The Job is created first, but starts no pod until its objects are there. It owns them: Kubernetes deletes them with the Job,
    whoever deletes that, also after its time to live.

    Args:
        kubectl: calls the cluster.
        wanted: its objects, the Job last.
        job: what was asked for.
        options: the table [k8s].
        token: for a Secret that is made; None: it is there.
        console: is told if the job goes on, or is cancelled.

    Raises:
        InputError: kubectl refuses, or there is a Job of this name.
    """
    *others, main = wanted
    name, launch = main["metadata"]["name"], secrets.token_hex(8)
    main["metadata"]["labels"] = {**main["metadata"]["labels"], _LAUNCH: launch}
    main["spec"] = {"suspend": True, **main["spec"]}
    if token is not None:
        encoded = base64.b64encode(token.encode(errors="surrogateescape")).decode()
        others.append(fill("secret", metadata(job, options, "token") | {"name": options.secret, "token": encoded}))
    runs = False
    try:
        uid = _create(kubectl, main)
        for each in others:
            each["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}]
        kubectl("apply", "--server-side", "--filename=-", given={"apiVersion": "v1", "kind": "List", "items": others})
        kubectl("patch", "job", name, "--type=merge", '--patch={"spec":{"suspend":false}}')
        runs = True
        yield uid
    except UnansweredError:
        raise
    except BaseException as error:
        if runs and isinstance(error, Stopped) and error.code == 128 + SIGHUP:
            raise
        asked = isinstance(error, Stopped | KeyboardInterrupt)
        if _delete(kubectl, launch, name, console, **({"seconds": _HASTE_S} if asked else {})) and asked:
            console.print(f"job {job.name} is cancelled")
        raise
    _delete(kubectl, launch, name, console)


def _create(kubectl: Kubectl, main: Object) -> str:
    name = main["metadata"]["name"]
    try:
        made: Any = json.loads(kubectl("create", "--filename=-", "--output=json", given=main))
    except InputError as error:
        if "AlreadyExists" not in str(error):
            raise
        raise InputError(
            f"there is a job {name} already, which may be running; choose another name, wait until it has ended, or cancel it: "
            f"{kubectl.typed('delete', 'job', name)}"
        ) from error
    uid: str = made["metadata"]["uid"]
    return uid


def _delete(kubectl: Kubectl, launch: str, name: str, console: Console, **seconds: float) -> bool:
    """Deletes the Job of this launch; Kubernetes deletes what belongs to it. Returns whether that was possible."""
    try:
        kubectl("delete", "jobs", f"--selector={_LAUNCH}={launch}", "--wait=false", **seconds)
    except HalohopError as error:
        console.print(
            f"job {name} could not be deleted ({error}); delete it: {kubectl.typed('delete', 'job', name)}", soft_wrap=True
        )
        return False
    return True
