"""One trainer process: ``python -m halohop.recipes.trainer CONFIG.json``, in the environment that a launcher sets.

Rank 0 prints every event as a line of JSON. A failure ends the process with its traceback on standard error and exit code 1;
SIGTERM, when the run has been saved, with exit code 75.
"""

import sys

from halohop import World
from halohop.recipes.config import TrainConfig, read_config
from halohop.recipes.events import print_event
from halohop.recipes.train import train


def main(arguments: list[str]) -> int:
    """Trains as the config file ``arguments[0]`` says; returns the exit code."""
    if len(arguments) != 1:
        print("usage: python -m halohop.recipes.trainer CONFIG.json", file=sys.stderr)
        return 2
    train(read_config(TrainConfig, arguments[0]), world=World.detect(), on_event=print_event, stoppable=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
