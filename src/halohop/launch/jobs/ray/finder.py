"""Where servers are found that Ray restarts on other ports and nodes: the registry says it."""

from collections.abc import Sequence
from typing import Any

from halohop.launch.jobs.ray.registry import RegistryClient
from halohop.transport import Token, load_token


class RegistryFinder:
    """Finds the servers of a service by its registry. It pickles; the token does not go along.

    In a process that is none of Ray's, such as one that a loader spawns, it returns what was found last: servers know each
    other, so any of them that lives leads to the others.

    Args:
        service: name of the service.
        announces: of a server: the name under which it is listed, whichever process it is now.
        known: what was found last.
    """

    def __init__(self, service: str, *, announces: str = "", known: tuple[str, ...] = ()) -> None:
        self._client = RegistryClient(service)
        self._announces = announces
        self._announced = ""
        self._known = known
        self._token: Token | None = None

    def __call__(self) -> Sequence[str]:
        if self._client.is_reachable:
            found = tuple(self._client.ask("addresses"))
            self._known = found or self._known  # one that has just been restarted knows none
        return self._known

    def announce(self, name: str, address: str) -> None:
        self._announced = address
        self._client.ask("announce", self._announces, address)

    def withdraw(self, name: str) -> None:
        self._client.ask("withdraw", self._announces, self._announced)

    def token(self) -> Token | None:
        """What the servers share; in a process that is none of Ray's, that of its environment."""
        if self._token is None:
            self._token = self._client.ask("token") if self._client.is_reachable else load_token()
        return self._token

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._client.service, self._announces, self._known)

    def __repr__(self) -> str:
        return f"RegistryFinder({self._client.service!r})"


def _unpickled(service: str, announces: str, known: tuple[str, ...]) -> RegistryFinder:
    return RegistryFinder(service, announces=announces, known=known)
