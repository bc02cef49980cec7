"""Records that calls take and return: descriptions, schemas, sampled neighbors, padding."""

from halohop.pyg.draws import Draws, Edges
from halohop.sampling.caps import Padding
from halohop.store.description import Description
from halohop.store.schema import Schema

__all__ = [
    "Description",
    "Draws",
    "Edges",
    "Padding",
    "Schema",
]
