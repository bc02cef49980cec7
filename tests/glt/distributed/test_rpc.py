"""What is left of rpc: to meet, to wait, to exchange small values, and the arithmetic of partitions."""

import pytest

import halohop.glt as glt
from halohop.errors import ClusterError, InputError
from halohop.testing.worlds import free_address
from tests.support.glt_ranks import in_ranks

pytestmark = pytest.mark.usefixtures("alone")
distributed = glt.distributed


def test_workers_meet_wait_and_leave():
    host, port = free_address().split(":")

    def rank(number: int):
        assert not distributed.rpc_is_initialized()
        distributed.init_rpc(host, int(port), rpc_timeout=30)
        distributed.init_rpc(host, int(port))  # again, as scripts do
        assert (distributed.get_rpc_master_addr(), distributed.get_rpc_master_port()) == (host, int(port))
        gathered = distributed.all_gather({"rank": number})
        distributed.barrier()
        owners = distributed.rpc_sync_data_partitions(2, number % 2)
        distributed.shutdown_rpc()
        assert not distributed.rpc_is_initialized()
        return gathered, owners

    names = [f"_default_worker-{rank}" for rank in range(3)]
    gathered = {name: {"rank": rank} for rank, name in enumerate(names)}
    assert in_ranks(3, rank) == [(gathered, [[names[0], names[2]], [names[1]]])] * 3


def test_a_partition_that_no_process_has():
    host, port = free_address().split(":")

    def rank(number: int) -> None:
        distributed.init_rpc(host, int(port), rpc_timeout=30)
        with pytest.raises(ClusterError, match=r"partitions \[1\] of 2 are with no process"):
            distributed.rpc_sync_data_partitions(2, 0)
        with pytest.raises(
            ClusterError, match=r"has partition 0 of [23], and this process counts [23]; give all the same number"
        ):
            distributed.rpc_sync_data_partitions(2 + number, 0)

    in_ranks(2, rank)


def test_what_needs_others_before_they_are_met():
    with pytest.raises(InputError, match="init_rpc needs to know which process this is; call init_worker_group"):
        distributed.init_rpc("localhost", 11111)
    distributed.init_worker_group(2, 0)
    with pytest.raises(InputError, match="barrier needs the other processes; call init_rpc"):
        distributed.barrier()
    with pytest.raises(InputError, match="is_dynamic=True"):
        distributed.init_rpc("localhost", 11111, is_dynamic=True)


def test_a_router_needs_a_worker_for_each_partition():
    with pytest.raises(InputError, match=r"partitions \[1\] have no worker"):
        distributed.RpcDataPartitionRouter([["a"], []])


@pytest.mark.parametrize("name", ["rpc_register", "RpcCalleeBase", "rpc_request_async"])
def test_calls_of_ones_own_are_refused_when_they_are_used(name):
    with pytest.raises(InputError, match=rf"distributed\.{name} of GLT is not offered: .*torch\.distributed\.rpc"):
        getattr(distributed.rpc, name)()
