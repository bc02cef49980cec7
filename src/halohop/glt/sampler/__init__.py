"""`graphlearn_torch.sampler`, by its names."""

from typing import Any

from halohop.glt.batches import EdgeIndex
from halohop.glt.notes import missing
from halohop.glt.sampler.base import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NegativeSamplingMode,
    NeighborOutput,
    NodeSamplerInput,
    RemoteNodePathSamplerInput,
    RemoteNodeSplitSamplerInput,
    RemoteSamplerInput,
    SamplerOutput,
    SamplingConfig,
    SamplingType,
)
from halohop.glt.sampler.negative_sampler import RandomNegativeSampler
from halohop.glt.sampler.neighbor_sampler import NeighborSampler


def __getattr__(name: str) -> Any:
    return missing("sampler", name)
