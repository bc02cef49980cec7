"""`python -m halohop.launch.jobs.slurm`: what the batch script of a job runs."""

import sys

from halohop.launch.jobs.slurm.inside import main

if __name__ == "__main__":
    sys.exit(main())
