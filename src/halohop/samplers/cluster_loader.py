"""`halohop.ClusterLoader`: batches of whole clusters, with all edges among their nodes."""

from typing import Unpack

from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import ClusterData

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.pyg.arguments import SampledArguments, as_pyg
from halohop.pyg.sampled_loader import SampledLoader
from halohop.samplers.clusters import ClusterDataset, Clusters, cluster_dataset, clusters_of, read_cluster_data
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.remote import neighbor_sampler
from halohop.sampling.sampler import Sampler
from halohop.store.draw import Rules
from halohop.typing import NodeType


class ClusterLoader(SampledLoader):
    """Mini-batches of clusters of nodes and all edges among them, as in Cluster-GCN (Chiang et al. 2019).

    It does what PyG's `ClusterData` and `ClusterLoader` do together: a batch is the union of some clusters, and has the edges
    between them, too. Nodes come cluster by cluster as dealt, in a cluster by ascending id; edges by the position of their
    destination, then as the graph stores them. Batches are the same for any number of partitions, hosts and workers.

    Args:
        data: a PyG `Data` or `HeteroData`, a graph from `halohop.open`, or PyG's `ClusterData`, which has clusters already.
        clusters: a number, or who belongs to which cluster. A number of clusters is made by METIS, balanced as partitions are;
            every process does so for itself, with all edges in its memory (24 bytes each, and METIS's copies). Otherwise the name
            of a node attribute of integers, or an integer per node in ascending order of ids; in heterogeneous graphs all node
            types have the attribute, or a dict has a tensor for each. Numbers are at least 0 and may have gaps.
        batch_size: clusters per batch.
        kwargs: shuffle (of the clusters), drop_last, seed, world (ranks share the clusters), own_seeds, run, num_workers and the
            other arguments of `halohop.NeighborLoader` and `torch.utils.data.DataLoader`.

    Raises:
        InputError: arguments that cannot work; the message names the value and the remedy.

    Attributes:
        num_clusters: how many there are; those without a node do not count.

    Example:
        >>> import torch
        >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> batch = next(iter(ClusterLoader(data, torch.tensor([0, 1, 1, 0]))))
        >>> batch.n_id.tolist(), batch.e_id.tolist()
        ([0, 3], [3])
    """

    @as_pyg()
    def __init__(
        self,
        data: Data | HeteroData | Graph | ClusterData,
        clusters: Clusters | None = None,
        **kwargs: Unpack[SampledArguments],
    ) -> None:
        if isinstance(data, ClusterData):
            if clusters is not None:
                raise InputError("a ClusterData has its clusters; leave out `clusters`, or give the graph that it was made from")
            data, clusters = read_cluster_data(data)
        if clusters is None:
            raise InputError("clusters is not given; say how many, or who belongs to which")
        divided = clusters

        def make(graph: Graph, seed: int) -> tuple[Sampler, ClusterDataset]:
            self._dataset = dataset = cluster_dataset(graph, divided, seed)
            self.num_clusters = len(dataset)
            fanouts, rules = Fanouts.uniform([], graph.schema), Rules(subgraph="induced")
            return neighbor_sampler(graph, fanouts, seed=seed, rules=rules, columns=self._columns_along), dataset

        super().__init__(data, make, reads=(clusters,) if isinstance(clusters, str) else (), **kwargs)

    @property
    def clusters(self) -> Tensor | dict[NodeType, Tensor]:
        """The cluster of every node in ascending order of ids, int64; in heterogeneous graphs by node type.

        METIS is asked once: store this as a node attribute of the graph, or give it to the next loader as `clusters`.
        """
        numbers = clusters_of(self._sampler.graph, self._dataset)
        return numbers if len(numbers) > 1 else next(iter(numbers.values()))
