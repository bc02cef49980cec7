"""A table and its optimiser's state that do not fit into memory: steps a second beside those of the same table in memory.

    python -m benchmarks.table_on_disk --limit 512MiB        (as root; needs four times the limit on disk, and in memory)

The table and its state take four times the limit. Both runs make the same steps, in a process of their own: rows are read, and
given gradients. Their ids follow Zipf's law (the k-th of them is drawn as often as 1 / k), and lie anywhere. What is on disk runs
in a control group with the limit, in which pages of files count. The rows must have the same bits afterwards.
"""

import argparse
import hashlib
import json
import math
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.limited import run_limited
from benchmarks.machine import describe
from benchmarks.paths import BENCH
from halohop.memory import parse_size
from halohop.partitioning.book import Book
from halohop.store.part import NodePart, Part
from halohop.tables.change_messages import ChangeRequest, Moment, Share, TrainRequest
from halohop.tables.messages import MakeTableRequest, ReadRowsRequest, TableQuery, TableRequest
from halohop.tables.owner import Owner
from halohop.tables.rule_spec import RuleKind, RuleSpec
from halohop.tables.spec import Beginning, Storage, TableSpec

STATES = {"sgd": 0.0, "adagrad": 1.0, "rowwise_adagrad": 0.0, "adam": 2.0}
"""Bytes of state for a byte of rows, about."""


def ids_of(step: int, count: int, num_rows: int) -> torch.Tensor:
    """Ids by Zipf's law: the logarithm of a rank is uniform; ranks are scattered over the rows by a permutation."""
    ranks = np.exp(np.random.default_rng(step).random(count) * math.log(num_rows)).astype(np.int64).clip(max=num_rows) - 1
    return torch.from_numpy(ranks * 7_919_000_003 % num_rows)


def answer(owner: Owner, request: TableRequest[Any]) -> Any:
    reply = owner.answer(request)
    return reply.result(600) if isinstance(reply, Future) else reply


def measure(storage: Storage, rule: RuleKind, num_rows: int, width: int, batch: int, steps: int, folder: Path) -> None:
    """Prints the steps a second, of the second half of them, and a number of all rows that were used."""
    torch.set_num_threads(1)
    part = Part(nodes={"node": NodePart(num_nodes=num_rows, raw_id=None, columns={})}, edges={})
    owner = Owner(Book(nodes={"node": (0, num_rows)}, edges={}), {0: part}, folder=folder)
    begin = Beginning(kind="normal", high=0.1)
    spec = TableSpec(name="x", key="node", num_rows=num_rows, shape=(width,), dtype="float32", begin=begin, storage=storage)
    answer(owner, MakeTableRequest(spec=spec, sender="benchmark"))
    moment = Moment(group="optimizer", session="", rank=0, size=1, round=0, index=0)
    session = answer(owner, TrainRequest(moment=moment, rules={"x": RuleSpec(kind=rule)}, sender="benchmark")).session
    seconds = []
    for step in range(steps):
        gid = ids_of(step, batch, num_rows)
        grads = torch.randn((batch, width), generator=torch.Generator().manual_seed(step))
        moment = Moment(group="optimizer", session=session, rank=0, size=1, round=0, index=step)
        began = time.perf_counter()
        answer(owner, ReadRowsRequest(queries=(TableQuery(name="x", gid=gid),)))
        share = Share(name="x", gid=gid, rows=grads, lr=0.01)
        answer(owner, ChangeRequest(moment=moment, way="step", shares=(share,), alone=True))
        seconds.append(time.perf_counter() - began)
    digest = hashlib.sha256()
    for step in range(steps):
        query = TableQuery(name="x", gid=ids_of(step, batch, num_rows))
        digest.update(answer(owner, ReadRowsRequest(queries=(query,))).rows[0].numpy().tobytes())
    owner.close()
    later = seconds[len(seconds) // 2 :]
    print(json.dumps({"steps a second": round(len(later) / sum(later), 2), "rows": digest.hexdigest()[:16]}))


def compare(options: argparse.Namespace) -> int:
    limit = parse_size(options.limit)
    num_rows = int(4 * limit / (4 * options.width * (1 + STATES[options.rule])))
    BENCH.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"machine": describe(), "rule": options.rule, "rows": num_rows, "width": options.width}
    with tempfile.TemporaryDirectory(dir=BENCH) as folder:
        shape = ["--rule", options.rule, "--width", options.width, "--batch", options.batch, "--steps", options.steps]
        command = [sys.executable, "-m", "benchmarks.table_on_disk", "--num-rows", num_rows, "--folder", folder, *shape]
        in_memory = subprocess.run([*map(str, command), "--measure", "memory"], check=True, capture_output=True, text=True)
        out = Path(folder) / "out.json"
        on_disk = f"{' '.join(map(str, command))} --measure disk > {out}"
        finished = run_limited(["sh", "-c", on_disk], limit)
        found["in memory"], found["on disk"] = json.loads(in_memory.stdout), json.loads(out.read_text() or "{}")
    found["peak of the group, MiB"], found["exit code"] = finished.peak_bytes >> 20, finished.code
    found["share of the speed"] = round(found["on disk"]["steps a second"] / found["in memory"]["steps a second"], 3)
    found["same bits"] = found["on disk"]["rows"] == found["in memory"]["rows"]
    print(json.dumps(found, indent=2))
    return 0 if found["same bits"] else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", default="512MiB", help="of memory")
    parser.add_argument("--rule", choices=sorted(STATES), default="rowwise_adagrad")
    parser.add_argument("--width", type=int, default=128, help="of a row")
    parser.add_argument("--batch", type=int, default=20_000, help="ids of a step")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--measure", choices=["memory", "disk"], help=argparse.SUPPRESS)
    parser.add_argument("--num-rows", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.measure:
        return compare(options)
    measure(options.measure, options.rule, options.num_rows, options.width, options.batch, options.steps, options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
