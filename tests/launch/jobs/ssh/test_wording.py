import pytest

from halohop import __version__
from halohop.launch.jobs.ssh.wording import explained

CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Host key verification failed."""


@pytest.mark.parametrize(
    ("printed", "code", "meaning"),
    [
        ("ssh: Could not resolve hostname b: Name or service not known", 255, "has no address"),
        ("ssh: connect to host b port 22: Connection refused", 255, "has no ssh server that answers; start sshd there"),
        ("ssh: connect to host b port 22: Connection timed out", 255, "is not reached; see whether it is up"),
        ("ssh: connect to host b port 22: No route to host", 255, "is not reached"),
        ("No ED25519 host key is known for b and you have requested strict checking.", 255, "has a key that is not known here"),
        (CHANGED, 255, "has another key than known_hosts says"),
        ("ann@b: Permission denied (publickey).", 255, "refuses our key; `ssh-copy-id b`"),
        ("bash: line 1: /opt/python: No such file or directory", 127, "has no Python at /opt/python"),
        ("bash: line 1: /opt/python: Permission denied", 126, "has no Python at /opt/python"),
        ("/opt/python: Command not found.", 1, "has no Python at /opt/python"),
        ("", 127, "has no Python at /opt/python"),
        ("/opt/python: No module named halohop", 1, f"has no halohop {__version__} for /opt/python"),
        ("/opt/python: No module named halohop.launch.jobs", 1, f"`pip install halohop=={__version__}` there"),
        ("Connection closed by 10.0.0.7 port 22", 255, "closed the connection"),
        ("Traceback\nRuntimeError: luck", 1, "did not start: ssh ended with exit code 1 (Traceback / RuntimeError: luck)"),
        ("", None, "did not answer in time; see whether `ssh b true` works"),
    ],
)
def test_what_ssh_prints_says_what_to_do(printed: str, code: int | None, meaning: str) -> None:
    said = explained(printed, code, name="b", ssh="ssh b", python="/opt/python")
    assert meaning in said
    assert not printed or printed.splitlines()[-1].strip() in said or "IDENTIFICATION" in said
