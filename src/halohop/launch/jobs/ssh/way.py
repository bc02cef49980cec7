"""How hosts are reached by OpenSSH's client."""

import shlex
from dataclasses import dataclass

from halohop.launch.jobs.crew.way import Host, Running, piped, runner_words
from halohop.launch.jobs.ssh.hosts import Settings
from halohop.launch.jobs.ssh.wording import explained

_FAILED = 255
"""Exit code of ssh where the connection has failed; any other is that of the command on the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """As of `Way`.

    Args:
        settings: of the job.
    """

    settings: Settings

    @property
    def patience(self) -> float:
        return self.settings.connect_timeout

    def start(self, host: Host) -> Running:
        own = {
            "BatchMode": "yes",  # asks nobody for a password, who may not be there
            "ConnectTimeout": str(self.settings.connect_timeout),
            "ServerAliveInterval": "2",
            "ServerAliveCountMax": "3",
            "ClearAllForwardings": "yes",
            "ControlMaster": "no",
            "RemoteCommand": "none",
        }
        options = [word for key, value in own.items() for word in ("-o", f"{key}={value}")]
        return piped([*self.settings.words, "-T", *options, *host.target, shlex.join(["exec", *runner_words(host)])])

    def explain(self, host: Host, printed: str, code: int | None) -> str:
        by_hand = shlex.join([*self.settings.words, *(word for word in host.target if word != "--")])
        return explained(printed, code, name=host.name, ssh=by_hand, python=host.python)

    def is_cut(self, code: int | None) -> bool:
        return code == _FAILED
