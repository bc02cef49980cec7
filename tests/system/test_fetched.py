"""Ranks of torchrun that train on a URL: one of them fetches, whatever order they come in."""

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from halohop.datasets import synthetic
from halohop.partitioning.building.build import partition
from halohop.store.names import MANIFEST

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


class Ranges(SimpleHTTPRequestHandler):
    """Answers requests for some bytes of a file, and counts them."""

    asked: Counter[tuple[str, str]]

    def do_GET(self) -> None:
        self.asked[self.path.lstrip("/"), self.headers.get("Range", "")] += 1
        file = Path(self.translate_path(self.path))
        if not file.is_file():
            self.send_error(404)
            return
        data, wanted = file.read_bytes(), re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        part = data[int(wanted[1]) : int(wanted[2]) + 1] if wanted else data
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(part)))
        if wanted:
            self.send_header("Content-Range", f"bytes {wanted[1]}-{int(wanted[1]) + len(part) - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def asked() -> Counter[tuple[str, str]]:
    """How often each range of each file was asked for."""
    return Counter()


@pytest.fixture
def url(tmp_path: Path, asked: Counter[tuple[str, str]]) -> Iterator[str]:
    """Of a web server with a data set in two partitions."""
    partition(synthetic("tiny"), tmp_path / "there" / "parts", num_parts=2, method="random")
    handler = type("Counting", (Ranges,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(tmp_path / "there"))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/parts"
        server.shutdown()
        thread.join()


def test_ranks_of_a_host_fetch_once(url: str, asked: Counter[tuple[str, str]], tmp_path: Path) -> None:
    stage, out = tmp_path / "stage", tmp_path / "run"
    train = ("-m", "halohop", "train", url, "--stage", str(stage), "--out", str(out), "--epochs", "1", "--device", "cpu")
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3")
    done = subprocess.run(
        [*torchrun, *train], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert (events[0]["ranks"], events[0]["partitions"]) == (3, 2)
    files = Counter({name: count for (name, _), count in asked.items()})
    assert {name for name in files if not name.endswith(MANIFEST)} == {
        f"parts/{path.relative_to(tmp_path / 'there' / 'parts')}" for path in (tmp_path / "there").rglob("*.npy")
    }
    assert {count for (name, _), count in asked.items() if not name.endswith(MANIFEST)} == {1}
