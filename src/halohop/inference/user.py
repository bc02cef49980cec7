"""Your own model in stages: a module with `layers`, tried out on a few nodes before hours are spent on it.

    class Mine(nn.Module):
        layers: nn.ModuleList   # layer(x, edge_index) -> x; with several types layer(x_dict, edge_index_dict) -> dict
        head: nn.Module         # optional: rows of the last layer -> logits; without it only the rows are written
        target: str             # optional: the node type that is wanted, where there are several
        def inputs(self, node_type, x, raw_id): ...   # optional: rows for the first layer; without it `x` as float32

A layer may make a node's new row of its old row and those of its in-neighbours, and of nothing else. `GCNConv` reads the degrees
of the sources, a `GraphNorm` the mean over all nodes: what such a layer gives for a part of the graph is not what it gives for
the whole, so it is refused. Whatever comes between two convolutions (norm, activation) belongs into a layer. Layers get no edge
features. All in-edges of a node and relation come at once, so a node with very many needs memory for them.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.inference.model import EMBEDDINGS, LayeredModel, Neighbours, classified
from halohop.typing import RAW_ID, NodeType, Relation

_NODES = 8
_EDGES = 24
"""Size of the graph that the layers are tried out on: nodes per type, edges per relation."""

Rows = dict[NodeType, Tensor]
Edges = dict[Relation, Tensor]


class UserLayers(LayeredModel):
    """A user's model in stages, one per layer.

    Args:
        module: as the text above says; left in evaluation mode.
        graph: that it will be used on.
        embeddings: keep the last layer's rows, also where there is a head.
        target: the node type that is wanted, instead of the module's.

    Raises:
        InputError: the module has no layers, needs features that are not there, or a layer looks further than a node's in-edges.
        SchemaError: its `target` is no node type of the graph, or there are several and it names none.
    """

    folds = False

    def __init__(self, module: nn.Module, graph: Graph, *, embeddings: bool, target: NodeType | None = None) -> None:
        layers = getattr(module, "layers", None)
        if not isinstance(layers, Iterable) or not (layers := list(layers)) or not all(map(callable, layers)):
            raise InputError(
                f"{type(module).__name__} has no `layers` to compute one after the other; "
                "give it a sequence of layer(x, edge_index), see halohop.inference.user"
            )
        schema = graph.schema
        target = schema.node_type(target or getattr(module, "target", None))
        super().__init__(module.eval(), target, tuple(schema.edges), len(layers))
        self._layers: list[Callable[..., Any]] = layers
        self._plain = schema.is_homogeneous
        self._featured = {name for name, spec in schema.nodes.items() if "x" in spec.columns}
        self._inputs: Callable[..., Tensor] | None = getattr(module, "inputs", None)
        self._head: Callable[[Tensor], Tensor] | None = getattr(module, "head", None)
        self._embeddings = embeddings
        if self._inputs is None and self._featured != set(schema.nodes):
            bare = sorted(set(schema.nodes) - self._featured)
            raise InputError(f"nodes of {bare} have no features `x`; give the model a method inputs(node_type, x, raw_id)")
        if compl := [name for name in self._featured if self._inputs is None and schema.nodes[name].columns["x"].is_complex]:
            raise InputError(f"features `x` of {compl} are complex; give the model a method inputs(node_type, x, raw_id)")
        self._empty: list[Rows] = []
        with torch.no_grad():
            self._try_out(graph)

    def columns(self, node_type: NodeType) -> tuple[str, ...]:
        return (RAW_ID, "x") if node_type in self._featured else (RAW_ID,)

    def inputs(self, node_type: NodeType, columns: tuple[Tensor, ...]) -> Tensor:
        raw, x = columns if len(columns) == 2 else (columns[0], None)
        if self._inputs is not None:
            return self._inputs(node_type, x, raw)
        assert x is not None
        return x.float()

    def node_types(self, stage: int) -> tuple[NodeType, ...]:
        return (self.target,) if stage == self.stages - 1 else tuple(self._empty[stage + 1])

    def relations_into(self, stage: int, node_type: NodeType) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if relation[2] == node_type and relation[0] in self._empty[stage])

    def rows(self, stage: int, node_type: NodeType, x: Tensor, neighbours: Iterable[Neighbours]) -> Tensor:
        rows = {name: [x if name == node_type else empty.to(x.device)] for name, empty in self._empty[stage].items()}
        edges = self._no_edges(stage, x.device)
        for piece in neighbours:
            src, own = piece.src, len(x) if piece.relation[0] == node_type else 0
            others = rows[piece.relation[0]]
            src = torch.where(src < own, src, src - own + sum(map(len, others)))
            others.append(piece.x[own:])
            edges[piece.relation] = torch.stack([src, piece.dst])
        out = self._call(stage, {name: torch.cat(parts) for name, parts in rows.items()}, edges)
        return out[node_type][: len(x)]

    def results(self, rows: Tensor) -> dict[str, Tensor]:
        if self._head is None:
            return {EMBEDDINGS: rows}
        return classified(self._head, rows, embeddings=self._embeddings)

    def _call(self, stage: int, rows: Rows, edges: Edges) -> Rows:
        if not self._plain:
            return dict(self._layers[stage](rows, edges))
        ((name, x),), (edge_index,) = rows.items(), edges.values()
        return {name: self._layers[stage](x, edge_index)}

    def _no_edges(self, stage: int, device: torch.device) -> Edges:
        known = self._empty[stage]
        return {
            relation: torch.empty((2, 0), dtype=torch.int64, device=device)
            for relation in self.relations
            if relation[0] in known and relation[2] in known
        }

    def _try_out(self, graph: Graph) -> None:
        """Computes a few nodes with made-up edges both ways, at once and by in-edges only; learns which rows come out. Where the
        module lies."""
        device = next((parameter.device for parameter in self.module.parameters()), torch.device("cpu"))
        rows: Rows = {}
        for name, spec in graph.schema.nodes.items():
            stored = graph.fetch_rows(name, self.columns(name), torch.arange(min(_NODES, spec.count)))
            rows[name] = self.inputs(name, tuple(column.to(device) for column in stored))
        generator = torch.Generator().manual_seed(0)
        for stage in range(self.stages):
            self._empty.append({name: x[:0] for name, x in rows.items()})
            edges = self._no_edges(stage, device)
            for relation in edges:
                ends = [len(rows[name]) for name in (relation[0], relation[2])]
                if all(ends):
                    drawn = torch.stack([torch.randint(end, (_EDGES,), generator=generator) for end in ends])
                    edges[relation] = drawn.to(device)
            after = self._call(stage, rows, edges)
            self._compare(stage, rows, edges, after)
            rows = after
        if self.target not in rows:
            raise InputError(f"the last layer gives no rows for {self.target!r}, only for {sorted(rows)}")

    def _compare(self, stage: int, rows: Rows, edges: Edges, after: Rows) -> None:
        for name in after:
            some = len(rows[name]) // 2
            pieces = []
            for relation in self.relations_into(stage, name):
                src, dst = edges[relation][:, edges[relation][1].argsort(stable=True)]
                counts = torch.bincount(dst, minlength=some)[:some]
                piece = Neighbours(relation=relation, x=rows[relation[0]], src=src[dst < some], counts=counts, degree=counts)
                pieces.append(piece)
            alone = self.rows(stage, name, rows[name][:some], pieces)
            if not torch.allclose(alone, after[name][:some], rtol=1e-3, atol=1e-5, equal_nan=True):
                raise InputError(
                    f"layer {stage} ({type(self._layers[stage]).__name__}) gives nodes of {name!r} other rows when it is shown "
                    "their in-edges only: it looks further (at degrees of the sources as GCNConv, at all nodes as GraphNorm) or "
                    "draws random numbers, so it cannot be computed a layer at a time"
                )
