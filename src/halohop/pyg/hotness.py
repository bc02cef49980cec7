"""`halohop.placement.hotness`: how often batches need each node."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop.access.dealing import dealt
from halohop.access.estimates import Method, check_method, estimated
from halohop.cluster.graph import Graph
from halohop.flags import checks_flags
from halohop.loading.locality import Locality
from halohop.pyg.inputs import InputNodes, fanouts_of, seed_dataset
from halohop.pyg.source import source_of
from halohop.sampling.neighbor import check_columns
from halohop.store.draw import Rules
from halohop.typing import NodeType, Relation


@checks_flags
def hotness(
    graph: Graph | Data | HeteroData,
    seeds: InputNodes,
    fanouts: Sequence[int] | Mapping[Relation, Sequence[int]],
    *,
    batch_size: int,
    method: Method = "vip",
    locality: Locality = "none",
    replace: bool = False,
    weight_attr: str | None = None,
    epochs: int = 2,
    seed: int = 0,
) -> dict[NodeType, Tensor]:
    """How probable it is that a batch has each node; public as `halohop.placement.hotness`.

    - ``"vip"`` computes it: the vertex-inclusion probabilities of SALIENT++ (Kaler et al. 2023), hop by hop over all relations. A
      node counts as drawn by each list independently of the others, and a list that is drawn from with weights and without
      replacement is treated as `halohop.ops.draw_shares` says; both are close estimates, and exact where the neighbourhoods of a
      batch's seeds are trees. It reads the lists that can be reached once per hop, some at a time.
    - ``"presample"`` samples some epochs of batches and counts. Rare nodes, which it happens not to meet, get 0.
    - ``"degree"``: in how many lists a node is, as a share of the most of its type: an order of the nodes, and no probability.

    Args:
        graph: a graph from `halohop.open` or `halohop.connect`, or a PyG graph.
        seeds: the nodes that batches are about, as `input_nodes` of the loaders: "train", ids, a mask, None; with several node
            types also a type, or a pair of it and any of these.
        fanouts: neighbours per hop, or a dict with such a list per relation, as `num_neighbors` of the loaders.
        batch_size: seeds of a batch.
        method: how it is found out.
        locality: as of the loaders. "none": batches take their seeds from all of them; "owner": each partition's batches from the
            seeds that it owns; "blocks": each from one of its blocks. With these two the result has a row for each partition.
        replace, weight_attr: how neighbours are drawn, as of the loaders.
        epochs, seed: of pre-sampling: how many, and the seed of its draws.

    Returns:
        By node type, float32 ``[num_nodes]``, or ``[num_parts, num_nodes]`` with a locality. Nodes are in ascending order
        of their raw ids; where the user gave no ids that is the order of the user's rows.

    Raises:
        SchemaError, IdError: a type, split, relation or id that the graph does not have.
        InputError: a method, fanouts, weights or numbers that cannot work.

    Example:
        >>> star = Data(edge_index=torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]]), num_nodes=5)
        >>> hotness(star, torch.tensor([0]), [1], batch_size=1)["node"].tolist()
        [1.0, 0.25, 0.25, 0.25, 0.25]
    """
    check_method(method)
    source = source_of(graph, () if weight_attr is None else (weight_attr,)).graph
    rules = Rules(replace=replace, weight=weight_attr)
    numbers, nodes = fanouts_of(fanouts, source.schema), seed_dataset(source, seeds)
    check_columns(source, rules, numbers.sampled)
    deals = dealt(source, nodes.node_type, nodes.gid, batch_size=batch_size, locality=locality)
    order = {name: source.select(None, name)[0] for name in source.schema.nodes}
    rows: dict[NodeType, list[Tensor]] = {name: [] for name in order}
    for batches in deals[:1] if locality == "none" else deals:
        found = estimated(source, batches, numbers, rules, method=method, epochs=epochs, seed=seed)
        for name, gid in order.items():
            rows[name].append(found[name][gid].float())
    return {name: row[0] if locality == "none" else torch.stack(row) for name, row in rows.items()}
