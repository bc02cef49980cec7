"""What the API server says about pods: where they are, what keeps them from starting, and how they ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ON_THE_WAY = {"", "PodInitializing", "ContainerCreating"}
_SIGNALED = 128
_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of a pod.

    Args:
        name: in the manifest.
        state: "waiting", "running" or "terminated".
        reason: why, as Kubernetes calls it: "ImagePullBackOff", "OOMKilled".
        message: what Kubernetes says about it.
        code: exit code, as `subprocess` counts: negative for a signal. Of a container that was started again, its last one.
        ended: when it ended; "": it has not.
        restarts: how often it was started again.
    """

    name: str
    state: str
    reason: str
    message: str
    code: int
    ended: str
    restarts: int

    @property
    def has_started(self) -> bool:
        return self.state != "waiting" or self.restarts > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of a job.

    Args:
        name: of the pod, which differs each time that a pod of trainers is started again.
        uid: no other pod has.
        owner: uid of what made it.
        process: its name as in plans: "trainers-1", "server-0".
        phase: as Kubernetes calls it.
        leaving: whether it is being deleted.
        reason: why it could not be scheduled, or was ended: "Unschedulable", "Evicted".
        message: what Kubernetes says about that.
        containers: those that run before the main one, and the main one.
    """

    name: str
    uid: str
    owner: str
    process: str
    phase: str
    leaving: bool
    reason: str
    message: str
    containers: tuple[Container, ...]

    @property
    def has_started(self) -> bool:
        return any(container.has_started for container in self.containers)

    @property
    def is_at_work(self) -> bool:
        """Whether the main container has started."""
        return bool(self.containers) and self.containers[-1].has_started

    @property
    def obstacle(self) -> tuple[str, str] | None:
        """What keeps the pod from starting, in a word, and what Kubernetes says about it."""
        waits = [(each.reason, each.message) for each in self.containers if each.state == "waiting"]
        own = [(self.reason, self.message)] if self.phase == "Pending" else []
        return next(((reason, message) for reason, message in own + waits if reason not in _ON_THE_WAY), None)

    @property
    def culprit(self) -> Container | None:
        """The container that failed; None if none did."""
        return next((each for each in self.containers if each.state == "terminated" and each.code), None)

    @property
    def ended(self) -> str:
        """When it failed; "": it has not."""
        return "" if self.culprit is None else self.culprit.ended


def pod_of(data: Any) -> Pod:
    """Reads a pod as ``kubectl get pods --output=json`` prints it.

    Example:
        >>> pod_of({"metadata": {"name": "a-servers-0", "uid": "1"}, "status": {"phase": "Pending"}}).has_started
        False
    """
    about, status = data["metadata"], data["status"]
    number = about.get("annotations", {}).get(_INDEX, "")
    scheduled: Any = next((each for each in status.get("conditions", ()) if each["type"] == "PodScheduled"), {})
    why = scheduled if scheduled.get("status") == "False" else status
    return Pod(
        name=about["name"],
        uid=about["uid"],
        owner=next((owner["uid"] for owner in about.get("ownerReferences", ())), ""),
        process=f"trainers-{number}" if number else f"server-{about['name'].rpartition('-')[2]}",
        phase=status.get("phase", ""),
        leaving="deletionTimestamp" in about,
        reason=why.get("reason", ""),
        message=why.get("message", ""),
        containers=tuple(
            _container(each) for kind in ("initContainerStatuses", "containerStatuses") for each in status.get(kind, ())
        ),
    )


def _container(data: Mapping[str, Any]) -> Container:
    none: tuple[str, Any] = ("waiting", {})
    state, about = next(iter(data.get("state", {}).items()), none)
    last: Any = about if state == "terminated" else data.get("lastState", {}).get("terminated", {})
    code: int = last.get("exitCode", 0)
    return Container(
        name=data["name"],
        state=state,
        reason=about.get("reason", ""),
        message=about.get("message", ""),
        code=_SIGNALED - code if code > _SIGNALED else code,
        ended=last.get("finishedAt", ""),
        restarts=data.get("restartCount", 0),
    )
