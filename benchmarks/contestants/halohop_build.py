"""halohop's `partition` of a folder of ``.npy`` files.

python -m benchmarks.contestants.halohop_build FOLDER OUT PARTS METHOD
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import halohop
from benchmarks.work import anonymous_bytes
from halohop.datasets.powerlaw import PowerLaw, power_law


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contestants.halohop_build")
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("parts", type=int)
    parser.add_argument("method")
    parser.add_argument("--memory")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="halohop-") as folder:  # compiles kernels, which happens once per machine
        halohop.partition(power_law(PowerLaw(nodes=200, edges=900)), f"{folder}/out", num_parts=2, method=chosen.method)
    base = anonymous_bytes()
    begin, cpu = time.perf_counter(), time.process_time()
    tables = halohop.load_source(chosen.folder)
    read = time.perf_counter() - begin
    report = halohop.partition(tables, chosen.out, num_parts=chosen.parts, method=chosen.method, memory=chosen.memory)
    seconds, spent = time.perf_counter() - begin, time.process_time() - cpu
    found = {"seconds": seconds, "read": read, "cpu": spent, "base": base, "version": halohop.__version__, "cut": report.cut}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
