"""Commands in a control group with limited memory: ``python -m benchmarks.limited 2GiB COMMAND...`` (as root, on Linux).

The page cache counts in a group, so a process that reads more than the limit loses what it read before. Works with both versions
of control groups; the group is made beneath the root and removed at the end.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from halohop.memory import format_size, parse_size

_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What became of a command.

    Args:
        code: its exit code.
        seconds: that it took.
        peak_bytes: the most that the group took, pages of files included.
    """

    code: int
    seconds: float
    peak_bytes: int


def run_limited(command: list[str], limit: int) -> Finished:
    """Runs a command in a group of its own with `limit` bytes of memory; it is killed where it takes more.

    Raises:
        OSError: no group can be made: no root, or no control groups.
    """
    first = (_CGROUPS / "memory").is_dir()
    group = (_CGROUPS / "memory" if first else _CGROUPS) / f"halohop-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit))
        begin = time.perf_counter()
        joined = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command]
        code = subprocess.run(joined, check=False).returncode
        seconds = time.perf_counter() - begin
        peak = int((group / ("memory.max_usage_in_bytes" if first else "memory.peak")).read_text())
    finally:
        group.rmdir()
    return Finished(code=code, seconds=seconds, peak_bytes=peak)


if __name__ == "__main__":
    done = run_limited(sys.argv[2:], parse_size(sys.argv[1]))
    print(f"{done.seconds:.1f} s, at most {format_size(done.peak_bytes)} in memory, exit code {done.code}", file=sys.stderr)
    sys.exit(done.code)
