"""`graphlearn_torch.partition`, by its names."""

from typing import Any

from halohop.glt.notes import missing
from halohop.glt.partition.base import PartitionerBase as PartitionerBase
from halohop.glt.partition.base import build_partition_feature as build_partition_feature
from halohop.glt.partition.base import cat_feature_cache as cat_feature_cache
from halohop.glt.partition.base import load_feature_partition_data as load_feature_partition_data
from halohop.glt.partition.base import load_graph_partition_data as load_graph_partition_data
from halohop.glt.partition.base import load_partition as load_partition
from halohop.glt.partition.frequency_partitioner import FrequencyPartitioner as FrequencyPartitioner
from halohop.glt.partition.partition_book import GLTPartitionBook as GLTPartitionBook
from halohop.glt.partition.partition_book import HeteroEdgePartitionDict as HeteroEdgePartitionDict
from halohop.glt.partition.partition_book import HeteroNodePartitionDict as HeteroNodePartitionDict
from halohop.glt.partition.partition_book import OffsetId2Index as OffsetId2Index
from halohop.glt.partition.partition_book import PartitionBook as PartitionBook
from halohop.glt.partition.partition_book import RangePartitionBook as RangePartitionBook
from halohop.glt.partition.random_partitioner import RandomPartitioner as RandomPartitioner


def __getattr__(name: str) -> Any:
    return missing("partition", name)
