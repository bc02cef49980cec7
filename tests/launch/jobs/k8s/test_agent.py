"""torchrun's own exit code is 1 whatever happened; that of the agent says what did."""

import os
import signal
from pathlib import Path

import pytest

from halohop.launch.jobs.k8s import agent
from halohop.testing.worlds import free_addresses
from tests.support.forked import Forked

SCRIPT = """
import os, signal, sys, threading
if sys.argv[1] == "wait":
    print("ready", flush=True)
    threading.Event().wait(60)
if os.environ["RANK"] == "0":
    threading.Event().wait(60)
if sys.argv[1] == "signal":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(sys.argv[1]))
"""


def begin(tmp_path: Path, word: str, ranks: int = 2) -> Forked:
    (tmp_path / "script.py").write_text(SCRIPT)
    port = free_addresses(1)[0].rpartition(":")[2]
    where = ("--nnodes=1", "--node-rank=0", f"--nproc-per-node={ranks}", "--master-addr=127.0.0.1", f"--master-port={port}")
    return Forked("halohop.launch.jobs.k8s.agent", [*where, str(tmp_path / "script.py"), word], os.environ)


@pytest.mark.parametrize(
    ("word", "code"),
    [("75", 75), pytest.param("signal", 137, marks=pytest.mark.full), pytest.param("3", 3, marks=pytest.mark.full)],
)
def test_the_code_is_that_of_the_rank_that_failed_first(tmp_path, word, code):
    """The other rank is ended by torchrun, with SIGTERM, which is not what happened."""
    done = begin(tmp_path, word).finish()
    assert done.returncode == code, done.stderr


@pytest.mark.full
def test_a_signal_ends_the_ranks_and_is_the_code(tmp_path):
    process = begin(tmp_path, "wait", ranks=1)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    done = process.finish()
    assert done.returncode == 128 + signal.SIGTERM, done.stderr


def test_a_script_of_a_config_map_imports_modules_of_the_working_directory(monkeypatch):
    monkeypatch.setattr("torch.distributed.run.main", lambda words: None)
    monkeypatch.setenv("PYTHONPATH", "/mine")
    assert agent.main(["--nnodes=1", "t.py"]) == 0
    assert os.environ["PYTHONPATH"] == "/mine"
    assert agent.main(["--nnodes=1", "/script/t.py"]) == 0
    assert os.environ["PYTHONPATH"] == f"/mine:{Path.cwd()}"
