"""kubectl: each call ends within a deadline, and secrets reach it by its standard input only."""

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from halohop.errors import ClusterError, InputError
from halohop.transport import TOKEN_VARIABLE

_REQUEST_S, _CALL_S = 20, 40.0
"""How long the API server, and kubectl with all that it starts, may take to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """The user's kubectl.

    Args:
        command: its words.
        namespace: of all objects; "": kubectl's.
    """

    command: tuple[str, ...]
    namespace: str = ""

    def words(self, *words: str) -> tuple[str, ...]:
        """Returns a complete command line."""
        return (*self.command, *((f"--namespace={self.namespace}",) if self.namespace else ()), *words)

    def typed(self, *words: str) -> str:
        """Returns a command line as a user types it."""
        return shlex.join(self.words(*words))

    def __call__(self, *words: str, given: Any = None, seconds: float = _CALL_S) -> str:
        """Calls kubectl; returns what it prints.

        Args:
            words: of its command line.
            given: an object that it reads, as JSON.
            seconds: it may take.

        Raises:
            InputError: it is not installed, or refuses; says what it says.
            ClusterError: it has not answered in time.
        """
        command = self.words(*words, f"--request-timeout={_REQUEST_S}s")
        if shutil.which(command[0]) is None:
            raise InputError(
                f"{command[0]} is not installed here; install it, set command in [k8s], or take the manifests with --print and "
                "apply them elsewhere"
            )
        text = "" if given is None else json.dumps(given)
        try:
            done = subprocess.run(
                command, input=text, env=environment(), capture_output=True, text=True, timeout=seconds, start_new_session=True
            )
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"{self.typed(words[0])} has not answered for {seconds:g} seconds") from error
        if done.returncode:
            said = "; ".join(line.strip() for line in done.stderr.splitlines() if line.strip())
            raise InputError(f"{self.typed(words[0])} refuses: {said or 'it says nothing'}")
        return done.stdout


def environment() -> dict[str, str]:
    """The environment of kubectl, which may call programs of others to log in: without the token."""
    return {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
