"""Commands that look like Slurm's to a batch script: `srun` runs its command here, the others answer from files, with a log."""

import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.deadlines import within

_SRUN = r"""#!/bin/bash
while [[ ${1-} == --* ]]; do [[ $1 == --nodelist=* ]] && host=${1#*=}; shift; done
echo "srun $host" >> "$STUBS/log"
echo $$ > "$STUBS/srun-$host"
exec "$@"
"""

_SCONTROL = r"""#!/bin/bash
case "$1 $2" in
  "show hostnames") tr ' ' '\n' <<< "$HOSTS" ;;
  "show job")
    IFS= read -r state < "$STUBS/states" || exit 1
    [[ $(wc -l < "$STUBS/states") -le 1 ]] || sed -i 1d "$STUBS/states"
    echo "$state" ;;
  *) echo "scontrol $*" >> "$STUBS/log" ;;
esac
"""

_SQUEUE = r"""#!/bin/bash
cat "$STUBS/queue" 2> /dev/null || true
"""

_SCANCEL = r"""#!/bin/bash
echo "scancel $*" >> "$STUBS/log"
"""

_SBATCH = r"""#!/bin/bash
cat > "$STUBS/submitted"
env > "$STUBS/exported"
echo "sbatch $*" >> "$STUBS/log"
if [[ -e $STUBS/refusal ]]; then cat "$STUBS/refusal" >&2; exit 1; fi
echo 7
"""


class Stubs:
    """A folder of such commands.

    Args:
        folder: an empty one.
        hosts: the names that a job gets; one that runs is this machine: "localhost".
    """

    def __init__(self, folder: Path, *hosts: str) -> None:
        self.folder, self.hosts = folder, hosts
        texts = {"srun": _SRUN, "scontrol": _SCONTROL, "squeue": _SQUEUE, "scancel": _SCANCEL, "sbatch": _SBATCH}
        for name, text in texts.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> Path:
        """An executable file."""
        path = self.folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    @property
    def env(self) -> dict[str, str]:
        """What the commands and the batch script of job 7 find in their environment."""
        return {
            **{name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "STUBS": str(self.folder),
            "HOSTS": " ".join(self.hosts),
        }

    def states(self, *states: str) -> None:
        """What becomes of job 7, look by look: such as "RUNNING", or "FAILED 3:0" with an exit code."""
        lines = [
            f"JobId=7 JobState={state} Reason=None Restarts=0 ExitCode={code or '0:0'}"
            for state, _, code in (each.partition(" ") for each in states)
        ]
        (self.folder / "states").write_text("".join(f"{line}\n" for line in lines))

    def log(self) -> list[str]:
        """The commands that were called."""
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def start(self, script: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts a batch script as Slurm does."""
        file = self.write("job.sh", script)
        inside = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "made up", **(env or {})}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["bash", file], env=self.env | inside, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )

    def run(self, script: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Runs a batch script to its end; returns exit code and output."""
        process = self.start(script, env)
        try:
            output, _ = process.communicate(timeout=within(60))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return process.returncode, output
