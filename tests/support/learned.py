"""Models whose nodes have learned vectors, and their checkpoints."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from halohop.recipes.spec import ModelSpec
from halohop.recipes.vector_files import VectorFiles, write_vectors
from halohop.recipes.vectors import learned_vectors
from halohop.typing import NodeType


def random_vectors(folder: Path, spec: ModelSpec, raw: Mapping[NodeType, Tensor]) -> tuple[VectorFiles, ...]:
    """Writes a vector for each of these nodes (raw ids, ascending) of the types that learn some."""
    written = []
    for number, node_input in enumerate(spec.inputs):
        if node_input.width is None:
            files = VectorFiles(node_type=node_input.node_type, ids=f"{number}.ids.npy", rows=f"{number}.rows.npy")
            ids = raw[node_input.node_type]
            write_vectors(folder, files, ids, node_input.learned, [torch.randn(len(ids), node_input.learned)])
            written.append(files)
    return tuple(written)


def give_vectors(model: nn.Module) -> None:
    """A random vector, with a gradient, for each node with an id from 0 to 999 of the types that learn some."""
    for vectors in learned_vectors(model).values():
        rows = torch.randn(1000, vectors.width, requires_grad=True)
        vectors.lie_in(lambda raw, _, rows=rows: rows[raw])
