"""`graphlearn_torch.sampler.negative_sampler`, over `halohop.HalohopSampler`."""

from torch import Tensor

import halohop
from halohop.glt.data.dataset import dataset_of
from halohop.glt.data.graph import Graph
from halohop.glt.modes import check_mode, device_of, seed_of
from halohop.glt.notes import note


class RandomNegativeSampler:
    """Pairs of nodes that are no edges, each as likely as any other; torch's seed and the number of the call determine them.

    Args:
        graph: the edges.
        mode: "CPU" or "CUDA"; None for the one that there is.
        edge_dir: how the graph stores its edges, "in" or "out".

    Raises:
        InputError: a GPU is asked for, and there is none.
    """

    def __init__(self, graph: Graph, mode: str | None = None, edge_dir: str = "out") -> None:
        check_mode(mode or "CPU")
        self._device = device_of("cpu" if mode == "CPU" else None)
        self._sampler = halohop.HalohopSampler(dataset_of(graph, edge_dir).halohop_graph, [], seed=seed_of(None))
        self._calls = iter(range(2**62))

    def sample(self, req_num: int, trials_num: int = 5, padding: bool = False) -> Tensor:
        """As many pairs: ids of sources, then of destinations, int64 ``[2, req_num]``.

        Raises:
            InputError: every pair is an edge.
        """
        if trials_num != 5 or padding:
            note("trials_num")
        return self._sampler.sample_negatives(req_num, batch=next(self._calls)).to(self._device)
