"""What the command does before anything else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forked import run_script

SCRIPT = """
import atexit, json, os, sys
from pathlib import Path
from halohop.__main__ import main

def look():
    numbers = [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)]
    file.write_text(json.dumps([(number, os.readlink(f"/proc/self/fd/{number}")) for number in numbers]))

sys.argv[1:], file = ["--version"], Path(sys.argv[1])
atexit.register(look)
main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_command_without_standard_streams_has_the_null_device(tmp_path: Path) -> None:
    """As when started with ``<&- >&- 2>&-``: the next files that it opens do not get these descriptors."""
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", SCRIPT, str(tmp_path / "streams")]
    assert subprocess.run(closed, timeout=60, check=False).returncode == 0
    assert json.loads((tmp_path / "streams").read_text()) == [[number, "/dev/null"] for number in range(3)]


BUG = """
import sys
from halohop.launch.pages import summary

def summarize(*arguments, **options):
    raise ValueError("a name: \\x1b[2J\\x9b")

summary.summarize = summarize
sys.argv[1:] = ["inspect", "parts"]
from halohop.__main__ import main
main()
"""


def test_the_traceback_of_a_bug_is_text() -> None:
    done = run_script(BUG)
    assert done.returncode == 1
    assert "Traceback (most recent call last):" in done.stderr
    assert done.stderr.endswith("ValueError: a name: \\x1b[2J\\x9b\n")
