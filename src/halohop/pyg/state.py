"""What a user's PyG object was, and whether it still is: asked for every batch, so in as few steps as there are attributes."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop.pyg.attributes import is_sparse


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """What an attribute was: of a tensor, also how often torch knows it to have been written to, and where it lies."""

    value: Any
    version: int | None
    address: int | None

    @classmethod
    def of(cls, value: Any) -> "Attribute":
        if not isinstance(value, Tensor):
            return cls(value=value, version=None, address=None)
        version = None if value.is_inference() else value._version
        return cls(value=value, version=version, address=None if is_sparse(value) else value.data_ptr())


State = list[tuple[Any, dict[str, Attribute]]]
"""Of every storage, its key and its attributes."""


def state_of(data: Data | HeteroData) -> State:
    """(Copies of the mappings, which other threads may change; PyG's `items` looks up key by key.)"""
    return [(store._key, {key: Attribute.of(value) for key, value in store._mapping.copy().items()}) for store in data.stores]


def is_now(state: State, data: Data | HeteroData) -> bool:
    """Whether all attributes are still what they were."""
    stores = data.stores
    if len(stores) != len(state):
        return False
    for store, (key, attributes) in zip(stores, state, strict=True):
        inside = store.__dict__  # where the key is, too: PyG's property checks it each time
        mapping = inside["_mapping"]
        if inside.get("_key") != key or len(mapping) != len(attributes):
            return False
        for name, attribute in attributes.items():
            value = attribute.value
            if (
                mapping.get(name, attributes) is not value  # these attributes themselves are none
                or (attribute.version is not None and value._version != attribute.version)
                or (attribute.address is not None and value.data_ptr() != attribute.address)
            ):
                return False
    return True
