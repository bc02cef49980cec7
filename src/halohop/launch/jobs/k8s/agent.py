"""What a pod of trainers runs: torchrun, but it ends with the exit code of the rank that failed first, which Kubernetes reads.

``python -m halohop.launch.jobs.k8s.agent OPTIONS SCRIPT ARGUMENTS``, with the options of torchrun.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from halohop.launch.jobs.k8s.script import FOLDER


def main(arguments: Sequence[str]) -> int:
    """Runs torchrun; returns the exit code: that of the rank that failed first, or 128 and the number of the signal."""
    if any(word.startswith(f"{FOLDER}/") for word in arguments):  # the user's modules are in the image
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(Path.cwd()))))
    try:
        run.main([*arguments])
    except ChildFailedError as error:
        print(error, file=sys.stderr)
        code: int = error.get_first_failure()[1].exitcode
        return code if code > 0 else 128 - code
    except SignalException as error:
        print(error, file=sys.stderr)
        return 128 + error.sigval
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
