"""The engine for Slurm: writes a batch script, submits it, and follows it where that is asked for."""

from pathlib import Path

from halohop.files import writing
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import Plan, host_names, plan
from halohop.launch.jobs.plan_file import write_plan
from halohop.launch.jobs.slurm import queue
from halohop.launch.jobs.slurm.checks import check
from halohop.launch.jobs.slurm.following import follow
from halohop.launch.jobs.slurm.options import options_of
from halohop.launch.jobs.slurm.script import log_of, script
from halohop.launch.terminal.console import Console


class Slurm:
    """Turns a plan into a batch script of Slurm."""

    def plan(self, job: Job) -> Plan:
        return plan(job, host_names(job))

    def show(self, job: Job) -> str:
        """The batch script.

        Raises:
            InputError: a value that sbatch or bash cannot read.
        """
        return script(job)

    def run(self, job: Job, console: Console) -> None:
        """Submits a job. With ``wait`` in the table [slurm] it stays until the job has ended, and cancels it if it is stopped.

        Raises:
            InputError: sbatch is missing or refuses; or as of `check`.
            DatasetError: the partitions cannot be used.
            JobFailedError: the job failed; says which process, and shows the end of its log.
        """
        text = script(job)
        check(job)
        logs = Path(job.out) / "logs"
        with writing(logs):
            logs.mkdir(parents=True, exist_ok=True)
        write_plan(self.plan(job))
        number = queue.submit(text)
        log = Path(log_of(job).replace("%j", number).replace("%%", "%"))
        state = queue.state(number)
        console.print(f"job {number} of Slurm is {state.name} ({state.reason})")
        console.print(f"output: {log}; of each process: {logs}/HOST-PROCESS.log")
        if options_of(job).wait:
            follow(number, log, console)
        else:
            console.print(f"watch: tail -F {log}; squeue --jobs {number}")
            console.print(f"cancel: scancel {number}")


def engine() -> Slurm:
    """This engine."""
    return Slurm()
