"""How the first host of a job reaches the others, and itself: by Slurm's srun."""

from dataclasses import dataclass

from halohop import __version__
from halohop.launch.jobs.crew.way import Host, Running, last_words, piped, runner_words

_OF_TASKS = ("SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_CPU_BIND", "SLURM_GPU_BIND", "SLURM_TRES_BIND")
"""Variables by which srun would give the runner what one trainer was to have."""
_STEP = (
    "--nodes=1",
    "--ntasks=1",
    "--ntasks-per-node=1",
    "--overlap",
    "--cpu-bind=none",
    "--export=ALL",
    "--mpi=none",
    "--kill-on-bad-exit=0",
    "--wait=0",
)
"""One task, which has all that the job has of a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Srun:
    """As of `Way`."""

    patience: float = 90.0

    def start(self, host: Host) -> Running:
        return piped(self.command(host))

    def command(self, host: Host) -> list[str]:
        """The command for a host, which has all that the job has there."""
        unset = [word for name in _OF_TASKS for word in ("-u", name)]
        return ["env", *unset, "srun", f"--nodelist={host.name}", *_STEP, *runner_words(host)]

    def explain(self, host: Host, printed: str, code: int | None) -> str:
        said = last_words(printed)
        if code is None:
            return f"did not answer within {self.patience:g} s; see whether `srun --nodelist={host.name} true` works ({said})"
        return f"did not start: srun ended with exit code {code}; halohop {__version__} must be there for {host.python} ({said})"

    def is_cut(self, code: int | None) -> bool:
        return False
