"""The table of names: each public name of GLT is in one group, and does what its group says."""

import importlib
import re
import warnings
from pathlib import Path
from types import ModuleType

import pytest

from halohop.errors import InputError
from halohop.glt import names
from halohop.glt.notes import note

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "halohop" / "glt"

OF_GLT = {
    "typing": """
        NodeType EdgeType EDGE_TYPE_STR_SPLIT as_str reverse_edge_type TensorDataType NodeLabel NodeIndex Split GraphPartitionData
        FeaturePartitionData HeteroGraphPartitionData HeteroFeaturePartitionData Seeds InputNodes EdgeIndexTensor InputEdges
        NumNeighbors""",
    "data": """
        Topology Graph DeviceGroup Feature UnifiedTensor Dataset TableDataset sort_by_in_degree random_split vineyard_to_csr
        load_vertex_feature_from_vineyard load_edge_feature_from_vineyard get_fid_from_gid get_frag_vertex_offset
        get_frag_vertex_num VineyardPartitionBook VineyardGid2Lid v6d_id_select v6d_id_filter""",
    "sampler": """
        NodeSamplerInput EdgeSamplerInput NegativeSamplingMode NegativeSampling SamplerOutput HeteroSamplerOutput NeighborOutput
        EdgeIndex SamplingType SamplingConfig BaseSampler RemoteSamplerInput RemoteNodePathSamplerInput
        RemoteNodeSplitSamplerInput RandomNegativeSampler NeighborSampler""",
    "loader": """
        NodeLoader NeighborLoader LinkLoader LinkNeighborLoader SubGraphLoader to_data to_hetero_data get_edge_label_index""",
    "partition": """
        PartitionBook GLTPartitionBook RangePartitionBook OffsetId2Index HeteroNodePartitionDict HeteroEdgePartitionDict
        PartitionerBase RandomPartitioner FrequencyPartitioner load_partition load_graph_partition_data
        load_feature_partition_data cat_feature_cache build_partition_feature save_meta save_node_pb save_edge_pb
        save_graph_partition save_graph_cache
        save_feature_partition save_feature_partition_chunk save_feature_partition_cache""",
    "channel": "SampleMessage ChannelBase QueueTimeoutError MpChannel ShmChannel RemoteReceivingChannel",
    "distributed": """
        DistRole DistContext get_context init_worker_group init_server get_server wait_and_shutdown_server init_client
        shutdown_client async_request_server request_server DistServer DistDataset DistGraph PartialFeature DistFeature
        DistTableDataset DistTableRandomPartitioner DistRandomPartitioner DistNeighborSampler DistCollocatedSamplingProducer
        DistMpSamplingProducer DistLoader DistNeighborLoader DistLinkNeighborLoader DistSubGraphLoader
        CollocatedDistSamplingWorkerOptions MpDistSamplingWorkerOptions RemoteDistSamplingWorkerOptions ConcurrentEventLoop
        init_rpc shutdown_rpc rpc_is_initialized get_rpc_master_addr get_rpc_master_port all_gather barrier global_all_gather
        global_barrier RpcDataPartitionRouter rpc_sync_data_partitions RpcCalleeBase rpc_register rpc_request rpc_request_async
        rpc_global_request rpc_global_request_async""",
    "utils": """
        ensure_dir seed_everything merge_dict count_dict get_free_port index_select merge_hetero_sampler_output
        format_hetero_sampler_output append_tensor_to_file load_and_concatenate_tensors default_id_select default_id_filter
        save_ckpt load_ckpt get_available_device assign_device ensure_device python_exit_status CastMixin singleton
        tensor_equal_with_device id2idx convert_to_tensor apply_to_all_tensor share_memory squeeze ptr2ind coo_to_csr coo_to_csc
        parse_size""",
}
"""The public names of GLT, as of April 2025, by package."""

REFUSED = [name for name in names.REFUSED if name.count(".") == 1]
"""Those that are imported; the others are methods, which the tests of their classes show."""


def package(name: str) -> ModuleType:
    return importlib.import_module(f"halohop.glt.{name}")


@pytest.mark.parametrize("where", OF_GLT)
def test_each_name_of_glt_is_in_one_group(where: str) -> None:
    works, refused = set(names.WORKS[where]), {name.split(".")[1] for name in REFUSED if name.startswith(f"{where}.")}
    assert works & refused == set()
    missing = set(OF_GLT[where].split()) - works - refused
    assert missing == set()


@pytest.mark.parametrize("where", names.WORKS)
def test_names_that_work_are_there(where: str) -> None:
    found = package(where)
    assert len(set(names.WORKS[where])) == len(names.WORKS[where])
    for name in names.WORKS[where]:
        assert getattr(found, name).__doc__ not in names.REFUSED.values(), name


@pytest.mark.parametrize("full", REFUSED)
def test_names_that_are_refused_say_what_takes_their_place_when_they_are_used(full: str) -> None:
    where, name = full.split(".")
    value = getattr(package(where), name)
    with pytest.raises(InputError, match="^" + re.escape(f"{full} of GLT is not offered: {names.REFUSED[full]}")):
        value("whatever", number=3)


def test_names_that_glt_does_not_have_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match=r"module 'halohop\.glt\.data' has no attribute 'Datset'"):
        getattr(package("data"), "Datset")  # noqa: B009  # mypy knows no such name


@pytest.mark.parametrize("option", names.ACCEPTED)
def test_an_accepted_argument_is_noted_once_where_it_is_taken(option: str) -> None:
    with pytest.warns(UserWarning, match=f"{option} changes nothing here: "):
        note(option)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        note(option)
    taken = re.compile(rf'(note\(|\()"{option}"')
    assert any(taken.search(file.read_text()) for file in SOURCE.rglob("*.py") if file.name != "names.py")
