"""Partition a graph that no process has as a whole, from slices of it."""

from halohop.cluster.reading import read_partition
from halohop.net.slices import partition_slices
from halohop.partitioning.slices.slice_reader import join_slices
from halohop.partitioning.slices.slice_writer import SliceWriter
from halohop.partitioning.slices.slices import EdgeSlice, MemoryPartition, NodeSlice

__all__ = [
    "EdgeSlice",
    "MemoryPartition",
    "NodeSlice",
    "SliceWriter",
    "join_slices",
    "partition_slices",
    "read_partition",
]
