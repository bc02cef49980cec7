"""A build of numbers that several processes share, slowly: ``python -m tests.partitioning.toy_build FOLDER THREADS``.

It writes FOLDER/sums, whose bytes are the same however it was run, and notes in FOLDER/log when each step began and ended.
It does not end while there is a FOLDER/hold.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from halohop.files import write_file
from halohop.partitioning.steps.steps import Step, StepProgress, Steps

NUMBERS = 12
PLAN = {"numbers": NUMBERS}


def build(folder: Path, threads: int) -> None:
    """Squares are written in one stage, groups of them are added in the next, and the last one writes the result."""
    with Steps(folder / "sums.build", PLAN, threads=threads) as steps:
        squares = [Step(name=f"square {number}", run=logged(folder, "square", number, square)) for number in range(NUMBERS)]
        names = steps.run("square", squares)

        def add(place: Path, number: int) -> int:
            return sum(int((place / name).read_text()) for name in names[number::3])

        groups = [Step(name=f"add {number}", run=logged(folder, "add", number, add)) for number in range(3)]
        sums = steps.run("add", groups)

        def publish(place: Path, number: int) -> None:
            while (folder / "hold").exists():
                threading.Event().wait(0.01)
            write_file(folder / "sums", f"{sums}".encode())
            for name in names:
                (place / name).unlink(missing_ok=True)

        steps.run("publish", [Step(name="publish", run=logged(folder, "publish", 0, publish))])


def square(place: Path, number: int) -> str:
    (place / f"square-{number}").write_text(str(number**2))
    return f"square-{number}"


def logged(folder: Path, stage: str, number: int, run: Callable[[Path, int], object]) -> Callable[[StepProgress], object]:
    def step(progress: StepProgress) -> object:
        log(folder, "begin", stage, number)
        threading.Event().wait(0.01)
        progress(0)
        result = run(folder / "sums.build", number)
        log(folder, "end", stage, number)
        return result

    return step


def log(folder: Path, what: str, stage: str, number: int) -> None:
    with (folder / "log").open("ab", buffering=0) as stream:
        stream.write(f"{what} {stage}-{number} {os.getpid()} {time.monotonic()}\n".encode())


if __name__ == "__main__":
    build(Path(sys.argv[1]), int(sys.argv[2]))
