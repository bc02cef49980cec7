"""`python -m halohop.launch.jobs.host`: the runner of a host, which `halohop launch` starts over ssh."""

import sys

from halohop.launch.jobs.host.guard import guarded
from halohop.launch.jobs.host.runner import main

if __name__ == "__main__":
    sys.exit(guarded(main))
