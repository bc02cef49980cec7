"""Runs the job in a file, as `halohop launch` does."""

import sys
from pathlib import Path

from halohop.errors import HalohopError
from halohop.launch.jobs.engine import engine_of
from halohop.launch.jobs.job import read_job
from halohop.launch.terminal import logs

if __name__ == "__main__":
    logs.configure(logs.level_of(verbose=0, quiet=False))
    job = read_job(Path(sys.argv[1]), {})
    try:
        engine_of(job.engine).run(job, logs.people(soft_wrap=True))
    except HalohopError as error:
        sys.exit(f"{type(error).__name__}: {error}")
