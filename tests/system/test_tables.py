"""Tables whose owners are processes of their own: trainers of one host, and servers that are killed."""

import gc
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import halohop
from halohop import init
from halohop.collectives import free_port
from halohop.errors import ClusterError, PeerLostError
from halohop.testing.worlds import TOKEN
from halohop.transport import Limits
from halohop.typing import NODE

LIMITS = Limits(call_seconds=3, attempt_seconds=0.3, connect_seconds=5)

TRAINER = """
import sys
import torch, halohop
graph = halohop.open(sys.argv[1])
count = halohop.DistTensor(graph, (None,), torch.int64, "count", node_type="node")
ids = graph.select()[1]
for _ in range(20):
    count.add(ids, torch.ones(len(ids), dtype=torch.int64))
with halohop.hosts.meet() as meeting:
    meeting.barrier()
    print(count[ids].unique().tolist(), graph.statistics().get("table_shared_rows", 0) > 0, flush=True)
"""


def trainer(parts: Path, rank: int, size: int, port: int) -> "subprocess.Popen[str]":
    world = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    env = os.environ | {name: str(value) for name, value in world.items()} | {"MASTER_ADDR": "127.0.0.1"}
    return subprocess.Popen([sys.executable, "-c", TRAINER, str(parts)], env=env, stdout=subprocess.PIPE, text=True)


@pytest.mark.full
def test_trainers_of_one_host_share_tables_without_a_server(parts: Path) -> None:
    """Nothing is closed by hand: the owner's process ends after the others."""
    port = free_port("127.0.0.1")
    running = [trainer(parts, rank, 3, port) for rank in range(3)]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert said == ["[60] False\n", "[60] True\n", "[60] True\n"]


def memory_files(process: int) -> int:
    """How many pieces of tables' memory a process holds open or has mapped."""
    return len(re.findall("halohop table", Path(f"/proc/{process}/maps").read_text()))


@pytest.mark.full
@pytest.mark.parametrize("comes_back", [False, True])
def test_a_killed_owner_is_noticed_and_leaves_no_memory(start: Any, comes_back: bool) -> None:
    """Its clients on this machine read in its memory: from then on they do not."""
    server, address = start("0,1")
    gc.collect()
    before = memory_files(os.getpid())  # of other tests
    with halohop.connect([address], token=TOKEN, limits=LIMITS) as graph:
        table = halohop.DistTensor(graph, (None, 4), name="v", init=init.constant(2), node_type=NODE)
        ids = torch.arange(600)
        table[ids] = 3
        assert (table[ids] == 3).all()
        assert graph.statistics()["table_shared_rows"] == 600
        assert memory_files(os.getpid()) > before
        server.send_signal(signal.SIGKILL)
        server.wait(60)
        if comes_back:
            start("0,1", address.removeprefix("tcp://"))
            with pytest.raises(ClusterError, match=r"has no table 'v'.* it was started again, empty; .*--resume"):
                graph.tables.read("v", torch.arange(600))
        else:
            with pytest.raises(PeerLostError, match=re.escape(address)):
                graph.tables.read("v", torch.arange(600))
        assert graph.statistics()["table_shared_rows"] == 600
        graph.tables._shared.forget(table.spec)
        assert memory_files(os.getpid()) <= before
