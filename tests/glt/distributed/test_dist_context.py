"""Who a process is, and the options of its loaders."""

import pytest
import torch

import halohop.glt as glt
from halohop.errors import InputError
from halohop.glt.distributed import dist_context, dist_options
from halohop.glt.notes import note

Mp, Remote, Collocated = (
    glt.distributed.MpDistSamplingWorkerOptions,
    glt.distributed.RemoteDistSamplingWorkerOptions,
    glt.distributed.CollocatedDistSamplingWorkerOptions,
)


@pytest.mark.usefixtures("alone")
def test_a_worker_of_four():
    assert glt.distributed.get_context() is None
    glt.distributed.init_worker_group(4, 3, "trainers")
    context = glt.distributed.get_context()
    assert context == glt.distributed.DistContext(glt.distributed.DistRole.WORKER, "trainers", 4, 3, 4, 3)
    assert (context.is_worker(), context.is_server(), context.is_client(), context.worker_name) == (
        True,
        False,
        False,
        "trainers-3",
    )
    assert (context.num_servers(), context.num_clients()) == (0, 0)


def test_servers_and_clients_count_each_other():
    role = dist_context.DistRole
    client = dist_context.DistContext(role.CLIENT, "clients", 4, 1, 6, 3)
    server = dist_context.DistContext(role.SERVER, "servers", 2, 1, 6, 1)
    assert (client.num_servers(), client.num_clients()) == (server.num_servers(), server.num_clients()) == (2, 4)


@pytest.mark.usefixtures("alone")
def test_a_rank_outside_the_group():
    with pytest.raises(InputError, match=r"rank=2 is outside 0\.\.1; give each of the world_size=2 workers"):
        glt.distributed.init_worker_group(2, 2)
    assert glt.distributed.get_context() is None


def test_options_by_position_as_glt_has_them():
    made = Mp(2, [torch.device("cpu")] * 2, 8, "localhost", 11111, None, 60, "1GB", True)
    assert (made.num_workers, made.worker_concurrency, made.master_port, made.rpc_timeout) == (2, 8, 11111, 60)
    ahead = {"num_workers": 2, "prefetch_factor": 8}
    assert made.loading() == {**ahead, "timeout": 120, "backlog_bytes": 2**30, "pin_memory": True}
    remote = Remote([0, 1], 3, None, 4, "localhost", 11112, None, 60, 4096, 2, "train")
    assert (remote.server_rank, remote.num_workers, remote.rpc_timeout, remote.worker_key) == ([0, 1], 3, 60, "train")
    ahead = {"num_workers": 3, "prefetch_factor": 2}
    assert remote.loading() == {**ahead, "timeout": 120, "backlog_bytes": 4096}
    assert Collocated("localhost", 11111).loading() == {"num_workers": 1, "timeout": 360}


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (Mp, {"channel_size": "1 G"}, "channel_size='1 G' is no size; write a number and a unit"),
        (Remote, {"buffer_size": "much"}, "buffer_size='much' is no size"),
        (Mp, {"worker_concurrency": 33}, r"worker_concurrency=33 is outside 1\.\.32"),
        (Remote, {"worker_concurrency": 0}, r"worker_concurrency=0 is outside 1\.\.32"),
        (Mp, {"num_workers": 0}, "num_workers=0 makes no batch"),
        (Remote, {"prefetch_size": 0}, "prefetch_size=0 leaves no batch"),
        (Collocated, {"rpc_timeout": 0}, "rpc_timeout=0 leaves no time"),
        (Remote, {"workload_type": "train"}, "are of GraphScope"),
    ],
)
def test_options_that_cannot_work(kind, given, says):
    with pytest.raises(InputError, match=says):
        kind(**given)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("devices", [torch.device("cuda", 0), [torch.device("cpu"), torch.device("cuda", 1)]])
def test_a_gpu_that_is_not_there(devices):
    with pytest.raises(InputError, match="but there is no GPU here; leave worker_devices out"):
        Mp(worker_devices=devices)


def test_options_that_change_nothing_are_said_once():
    note.cache_clear()
    with pytest.warns(UserWarning, match="num_rpc_threads changes nothing here"):
        Mp(num_rpc_threads=4)
    Collocated(num_rpc_threads=4)
    with pytest.warns(UserWarning, match="use_all2all changes nothing here"):
        Collocated(use_all2all=True)


def test_where_to_meet(monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="master_addr=None, master_port=None is no place to meet; give both, or MASTER_ADDR"):
        dist_options.address_of(None, None)
    with pytest.raises(InputError, match="master_port='http' is no place to meet"):
        dist_options.address_of("localhost", "http")
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.7")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert dist_options.address_of(None, None) == "10.0.0.7:29501"
    assert dist_options.address_of("localhost", 11111) == "localhost:11111"
