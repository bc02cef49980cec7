"""What keeps ssh from starting the runner of a host, as a sentence that says what to do."""

import re

from halohop import __version__
from halohop.launch.jobs.crew.way import last_words

_KEY_CHANGED = "has another key than known_hosts says, so it may be another machine; if that is right, `ssh-keygen -R {name}`"
_KEY_UNKNOWN = "has a key that is not known here; connect once with `{ssh}` and compare its fingerprint, or add it to known_hosts"
_REFUSED_US = "refuses our key; `ssh-copy-id {name}`, or start ssh-agent and `ssh-add`, until `{ssh} true` asks for no password"
_NO_ADDRESS = "has no address; write its name as ssh knows it, or add it to ~/.ssh/config"
_NO_SERVER = "has no ssh server that answers; start sshd there, or give its port, like {name}:2222"
_NOT_REACHED = "is not reached; see whether it is up, and whether `{ssh} true` works"
_NO_HALOHOP = (
    "has no halohop {version} for {python}; `pip install halohop=={version}` there, or name an interpreter that has it "
    "([ssh.hosts.{name}] python, or python_bins)"
)
_NO_PYTHON = "has no Python at {python}; name one that is there ([ssh.hosts.{name}] python, or python_bins)"
_CLOSED = "closed the connection; see whether `{ssh} true` works"

_MEANINGS = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", _KEY_CHANGED),
    (r"Host key verification failed|No .* host key is known", _KEY_UNKNOWN),
    (r"Permission denied \(|Too many authentication failures", _REFUSED_US),
    (r"Could not resolve hostname", _NO_ADDRESS),
    (r"Connection refused", _NO_SERVER),
    (r"timed out|No route to host|Network is unreachable|Host is down", _NOT_REACHED),
    (r"No module named '?halohop", _NO_HALOHOP),
    (r"(not found|No such file or directory|Permission denied|not executable)\.?$", _NO_PYTHON),
    (r"closed by remote host|Connection reset|Connection closed|Broken pipe", _CLOSED),
)
"""What ssh or a shell prints, and what it means. The first that matches counts."""

_CANNOT_EXECUTE = (126, 127)
"""Exit codes of shells, where there is no such program, or it is none."""


def explained(printed: str, code: int | None, *, name: str, ssh: str, python: str) -> str:
    """Why the runner of a host did not start.

    Args:
        printed: by ssh, and by the host's shell and Python, to standard error.
        code: exit code of ssh; None: it runs, and nothing came.
        name: of the host.
        ssh: the command that a user would try.
        python: interpreter that was asked for.

    Example:
        >>> explained("Connection refused", 255, name="b", ssh="ssh b", python="python3")
        'has no ssh server that answers; start sshd there, or give its port, like b:2222 (Connection refused)'
    """
    names = {"name": name, "ssh": ssh, "python": python, "version": __version__}
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if code in _CANNOT_EXECUTE:
        return f"{_NO_PYTHON.format(**names)} ({lines[-1] if lines else f'exit code {code}'})"
    for pattern, meaning in _MEANINGS:
        if found := [line for line in lines if re.search(pattern, line, re.IGNORECASE)]:
            return f"{meaning.format(**names)} ({found[-1]})"
    end = last_words(printed)
    if code is None:
        return f"did not answer in time; see whether `{ssh} true` works, and give it more seconds ([ssh] connect_timeout) ({end})"
    return f"did not start: ssh ended with exit code {code} ({end})"
