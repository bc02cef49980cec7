"""Who belongs to a job and where: an actor that servers and trainers say it to, and that all of them ask."""

import os
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from halohop import errors
from halohop.errors import ClusterError, DatasetError, HalohopError, InputError, WriteError
from halohop.launch.jobs.ray.library import NAMESPACE, ray_library
from halohop.transport import Token

_PATIENCE_S = 30.0
"""For an answer; a registry that was killed is back after a second or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A process of a job.

    Args:
        name: "server-0", "rank-3".
        host: name of its machine.
        ip: address of its node, as Ray has it.
        pid: its number there.
    """

    name: str
    host: str
    ip: str
    pid: int

    @classmethod
    def here(cls, name: str) -> "Member":
        """This process, a worker of Ray's."""
        ip = ray_library("ray.util").get_node_ip_address()
        return cls(name=name, host=socket.gethostname(), ip=ip, pid=os.getpid())


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a process of a job failed, as it says itself.

    Args:
        member: which.
        kind: class of the error.
        message: of the error.
        is_final: whether it would fail again: it is about what the user gave.
    """

    member: Member
    kind: str
    message: str
    is_final: bool

    @classmethod
    def of(cls, member: Member, error: BaseException) -> "Report":
        final = isinstance(error, InputError | DatasetError | WriteError)
        return cls(member=member, kind=type(error).__name__, message=str(error), is_final=final)

    def error(self) -> HalohopError:
        """An error that names the process, of the class that it raised, or a `ClusterError`.

        Example:
            >>> member = Member(name="rank-1", host="node7", ip="10.0.0.7", pid=42)
            >>> Report.of(member, InputError("lr=0 must be over 0")).error()
            InputError('rank-1 on node7: lr=0 must be over 0')
        """
        kind = getattr(errors, self.kind, None) if self.is_final else None
        where = f"{self.member.name} on {self.member.host}"
        if kind is None:
            return ClusterError(f"{where} failed: {self.kind}: {self.message}")
        error: HalohopError = kind.__new__(kind, f"{where}: {self.message}")  # whatever its constructor takes
        return error


class Registry:
    """The actor. It may be killed and start empty: servers announce themselves again every few seconds.

    Args:
        token: what servers and trainers share. Ray sends it to processes that ask, and writes it into no log.
    """

    def __init__(self, token: Token | None) -> None:
        self._token = token
        self._addresses: dict[str, str] = {}
        self._members: dict[str, Member] = {}
        self._begun: Counter[str] = Counter()
        self._reports: list[Report] = []

    def token(self) -> Token | None:
        return self._token

    def announce(self, name: str, address: str) -> None:
        self._addresses[name] = address

    def withdraw(self, name: str, address: str) -> None:
        if self._addresses.get(name) == address:
            del self._addresses[name]

    def addresses(self) -> tuple[str, ...]:
        return tuple(address for _, address in sorted(self._addresses.items()))

    def enter(self, member: Member) -> int:
        """A process begins; how many of its name have begun before."""
        self._members[member.name] = member
        self._begun[member.name] += 1
        return self._begun[member.name] - 1

    def members(self) -> tuple[Member, ...]:
        return tuple(self._members.values())

    def report(self, report: Report) -> None:
        self._reports.append(report)

    def reports(self) -> tuple[Report, ...]:
        return tuple(self._reports)

    def __repr__(self) -> str:
        return "registry"


class RegistryClient:
    """Asks the registry of a service, from any process of Ray's. It pickles; the token does not go along.

    Args:
        service: name of the service.
    """

    def __init__(self, service: str) -> None:
        self.service = service
        self._process = os.getpid()
        self._actor: Any = None

    @property
    def is_reachable(self) -> bool:
        """Whether this process is one of Ray's: a process that it forked or spawned is none."""
        ray = sys.modules.get("ray")
        return ray is not None and os.getpid() == self._process and bool(ray.is_initialized())

    def ask(self, method: str, *arguments: Any) -> Any:
        """What a method of the registry returns.

        Raises:
            ClusterError: there is no registry, or it does not answer.
        """
        ray = ray_library()
        try:
            if self._actor is None:
                self._actor = ray.get_actor(registry_name(self.service), namespace=NAMESPACE)
            return ray.get(getattr(self._actor, method).remote(*arguments), timeout=_PATIENCE_S)
        except (ValueError, ray.exceptions.RayError) as error:
            self._actor = None
            raise ClusterError(f"the registry of the graph service {self.service!r} does not answer: has it ended?") from error

    def reports(self) -> Sequence[Report]:
        found: Sequence[Report] = self.ask("reports")
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.service,)


def registry_name(service: str) -> str:
    return f"{service}-registry"


def start_registry(service: str, token: Token | None, *, deadline: float) -> Any:
    """The registry of a service, an actor on the node of this driver, with which it ends.

    Raises:
        InputError: there is a service of this name already.
        ClusterError: it has not started within `deadline` seconds.
    """
    ray = ray_library()
    here = ray_library("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy(
        node_id=ray.get_runtime_context().get_node_id(), soft=True
    )
    kind = ray.remote(Registry).options(
        name=registry_name(service),
        namespace=NAMESPACE,
        num_cpus=0,
        max_restarts=-1,
        max_task_retries=-1,
        scheduling_strategy=here,
    )
    try:
        registry = kind.remote(token)
        ray.get(registry.addresses.remote(), timeout=deadline)
        return registry
    except ray.exceptions.GetTimeoutError as error:
        raise ClusterError(f"the cluster has started no process within {deadline:g} s; is it busy?") from error
    except ValueError as error:
        raise InputError(f"the cluster has a graph service named {service!r} already; give another name") from error
