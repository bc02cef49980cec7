"""An actor that knows the addresses of the servers of a service: servers report them, and clients ask for them."""

import os
import sys
from typing import Any

from halohop.errors import ClusterError, InputError
from halohop.launch.jobs.ray.library import NAMESPACE, ray_library
from halohop.transport import Token

_PATIENCE_S = 30.0
"""For an answer; a registry that was killed is back after a second or two."""


class Registry:
    """The actor. It may be killed and start empty: servers announce themselves again every few seconds.

    Args:
        token: what servers and trainers share. Ray sends it to processes that ask, and writes it into no log.
    """

    def __init__(self, token: Token | None) -> None:
        self._token = token
        self._addresses: dict[str, str] = {}
        self._report = b""

    def token(self) -> Token | None:
        return self._token

    def announce(self, name: str, address: str) -> None:
        self._addresses[name] = address

    def withdraw(self, name: str, address: str) -> None:
        if self._addresses.get(name) == address:
            del self._addresses[name]

    def addresses(self) -> tuple[str, ...]:
        return tuple(address for _, address in sorted(self._addresses.items()))

    def report(self, report: bytes) -> None:
        """A server has failed, as `failures.report` spells it; the first counts."""
        self._report = self._report or report

    def first_report(self) -> bytes:
        return self._report

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
