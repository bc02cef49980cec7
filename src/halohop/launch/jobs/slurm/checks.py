"""What can be said of a job before it is submitted, as far as it is seen from here."""

import os
from pathlib import Path

from halohop.errors import InputError
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import check_parts, host_names, plan
from halohop.launch.jobs.slurm import queue
from halohop.launch.jobs.slurm.script import log_of


def check(job: Job) -> None:
    """Refuses a job that cannot work. What only the hosts see, they say themselves.

    Raises:
        InputError: an allocation has been entered already, the script is not there, others can read the token, there are more
            hosts than partitions, or the run folder has another run.
        DatasetError: the partitions cannot be used.
    """
    inside = os.environ.get("SLURM_JOB_ID")
    if inside is not None:
        raise InputError(
            f"this is inside of Slurm's job {inside}, whose hosts another job would not get; leave it to submit one, or run the "
            "script on these hosts: halohop launch ... --print | bash"
        )
    program, folder = job.run[0] if job.run else "-m", Path(job.folder)
    if not program.startswith("-") and folder.is_dir() and not (folder / program).is_file():
        raise InputError(f"there is no script {program} in {folder}; run begins with a script, or with -m and a module")
    if job.token_file is not None and Path(job.token_file).exists():
        from halohop.launch.jobs.secret import secret_of

        secret_of(job)
    _check_partitions(job)
    _check_run_folder(job)


def _check_partitions(job: Job) -> None:
    if job.data and (Path(job.data) / "manifest.json").is_file():
        from halohop.store.disk import read_manifest

        check_parts(plan(job, host_names(job)), read_manifest(job.data).num_parts)


def _check_run_folder(job: Job) -> None:
    other = queue.writing_to(log_of(job))
    if other is not None:
        raise InputError(
            f"job {other} of Slurm writes to {job.out} already; wait for it, cancel it (scancel {other}), or take another folder"
        )
    if job.train is not None and Path(job.out).is_dir():
        from halohop.recipes.config import TrainConfig
        from halohop.recipes.folder import check_run

        anew, on = bool(job.train.get("overwrite")), bool(job.train.get("resume"))
        check_run(TrainConfig(parts=job.data, out=job.out, overwrite=anew, resume=on))
