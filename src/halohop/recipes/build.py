"""The model that a spec describes."""

from halohop.recipes.hgt import AttentionClassifier
from halohop.recipes.link_model import LinkPredictor
from halohop.recipes.models import NodeClassifier, PlainClassifier, RelationalClassifier
from halohop.recipes.spec import ModelSpec

_TYPED: dict[str, type[NodeClassifier]] = {"rgcn": RelationalClassifier, "hgt": AttentionClassifier}


def build_model(spec: ModelSpec) -> NodeClassifier | LinkPredictor:
    """A new model, with weights from torch's random state."""
    encoder = _TYPED.get(spec.kind, PlainClassifier)(spec)
    return encoder if spec.relation is None else LinkPredictor(spec, encoder)
