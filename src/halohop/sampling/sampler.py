"""What a loader asks of a sampler, whatever the sampler draws."""

from typing import Protocol

from halohop.cluster.graph import Graph
from halohop.sampling.batch import AnySeeds, Batch


class Sampler(Protocol):
    """Makes the batch that belongs to some seeds; one sampler serves any number of threads.

    A batch is a pure function of the sampler's own seed and of the seeds, which say their epoch and index.
    """

    @property
    def graph(self) -> Graph:
        """Where the nodes are; it is asked for the batch's rows."""
        ...

    def sample(self, seeds: AnySeeds) -> Batch:
        """The batch without rows (see `halohop.sampling.collect`)."""
        ...
