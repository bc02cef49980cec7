"""What a pod of trainers runs: torchrun, but it ends with the exit code of the rank that failed first, which Kubernetes reads.

``python -m halohop.launch.jobs.k8s.agent [--go-on=FOLDER] OPTIONS SCRIPT ARGUMENTS``, with the options of torchrun. With
``--go-on`` the script is given ``--resume FOLDER`` where a run has saved its state there.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from halohop.launch.jobs.k8s.script import FOLDER
from halohop.recipes.names import STATE

_OPTION = "--go-on="


def main(arguments: Sequence[str]) -> int:
    """Runs torchrun; returns the exit code: that of the rank that failed first, or 128 and the number of the signal."""
    words = [*arguments]
    if words and words[0].startswith(_OPTION):
        folder = words.pop(0).removeprefix(_OPTION)
        words += ["--resume", folder] if (Path(folder) / STATE).exists() else []
    if any(word.startswith(f"{FOLDER}/") for word in words):  # the user's modules are in the image
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(Path.cwd()))))
    try:
        run.main(words)
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
