"""The table of names: each public name of DGL's distributed part is in one group, and does what its group says."""

import importlib
import re
import warnings
from pathlib import Path
from types import ModuleType

import pytest

from halohop.dgl import names
from halohop.dgl.notes import note
from halohop.errors import InputError

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "halohop" / "dgl"

OF_DGL = {
    "distributed": """
        initialize exit_client DistGraph DistGraphServer node_split edge_split DistTensor DistDataLoader DistNodeDataLoader
        DistEdgeDataLoader NodeCollator EdgeCollator GraphPartitionBook PartitionPolicy sample_neighbors sample_etype_neighbors
        in_subgraph find_edges KVClient KVServer DistEmbedding dgl_partition_to_graphbolt gb_convert_single_dgl_partition
        load_partition load_partition_book load_partition_feats partition_graph set_rank get_rank Request Response
        register_service create_sender create_receiver finalize_sender finalize_receiver wait_for_senders connect_receiver
        read_ip_config get_group_id get_num_machines set_num_machines get_machine_id set_machine_id send_request recv_request
        send_response recv_response remote_call send_request_to_machine remote_call_to_machine fast_pull DistConnectError
        get_num_client set_num_client client_barrier copy_data_to_shared_memory connect_to_server start_server ServerState
        optim nn""",
    "distributed.optim": "SparseAdagrad SparseAdam",
    "distributed.nn": "DistEmbedding",
}
"""The public names of DGL, as of August 2025, by package."""


def package(name: str) -> ModuleType:
    return importlib.import_module(f"halohop.dgl.{name}" if name else "halohop.dgl")


@pytest.mark.parametrize("where", OF_DGL)
def test_each_name_of_dgl_is_in_one_group(where: str) -> None:
    works, refused = set(names.WORKS[where]), {name for name in OF_DGL[where].split() if f"{where}.{name}" in names.REFUSED}
    assert works & refused == set()
    assert set(OF_DGL[where].split()) - works - refused == set()


@pytest.mark.parametrize("where", names.WORKS)
def test_names_that_work_are_there(where: str) -> None:
    found = package(where)
    assert len(set(names.WORKS[where])) == len(names.WORKS[where])
    for name in names.WORKS[where]:
        assert f"{where}.{name}".lstrip(".") not in names.REFUSED
        assert getattr(found, name).__doc__ not in names.REFUSED.values() or where == "", name


@pytest.mark.parametrize("full", [name for name in names.REFUSED if re.fullmatch(r"(distributed|nn)\.\w+", name)])
def test_names_that_are_refused_say_what_takes_their_place_when_they_are_used(full: str) -> None:
    where, name = full.split(".")
    value = getattr(package(where), name)
    with pytest.raises(InputError, match="^" + re.escape(f"{full} of DGL is not offered: {names.REFUSED[full]}")):
        value("whatever", number=3)


def test_names_that_dgl_does_not_have_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match=r"module 'halohop\.dgl\.distributed' has no attribute 'DistGrph'"):
        getattr(package("distributed"), "DistGrph")  # noqa: B009  # mypy knows no such name


@pytest.mark.parametrize("option", names.ACCEPTED)
def test_an_accepted_argument_is_noted_once(option: str) -> None:
    note.cache_clear()
    with pytest.warns(UserWarning, match=f"{option} changes nothing here: "):
        note(option)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        note(option)
