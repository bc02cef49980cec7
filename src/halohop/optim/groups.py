"""What groups of an optimiser of tables may hold."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from halohop.errors import InputError
from halohop.tensors.dist_embedding import DistEmbedding

_REFUSED = {
    "momentum": "it moves rows that no batch has touched",
    "nesterov": "there is no momentum",
    "dampening": "there is no momentum",
    "weight_decay": "it moves rows that no batch has touched; add the squared rows of the batch to the loss",
    "amsgrad": "the rule is that of torch.optim.SparseAdam",
}


def check_embeddings(embeddings: Sequence[Any]) -> None:
    """
    Raises:
        InputError: what is no DistEmbedding, or is given twice, or tables of several graphs.
    """
    for embedding in embeddings:
        if not isinstance(embedding, DistEmbedding):
            raise InputError(
                f"a {type(embedding).__name__} is no halohop.DistEmbedding; give the model's parameters to an optimiser of "
                "torch.optim"
            )
        if embedding.graph is not embeddings[0].graph:
            names = f"{embeddings[0].name!r} and {embedding.name!r}"
            raise InputError(f"tables {names} are of two graphs; make an optimiser for each graph")
    for name, count in Counter(embedding.name for embedding in embeddings).items():
        if count > 1:
            raise InputError(f"table {name!r} is given twice; each is in one group, once")


def check_names(given: Mapping[str, Any], known: set[str], what: str) -> None:
    """
    Raises:
        InputError: an argument that an optimiser does not have.
    """
    for name, value in given.items():
        if name not in known and (value or name not in _REFUSED):
            why = f"it is not done at the tables' owners: {_REFUSED[name]}; " if name in _REFUSED else ""
            raise InputError(f"{what} has no {name}={value!r}; {why}leave it out, or take one of {', '.join(sorted(known))}")


def check_numbers(group: Mapping[str, Any]) -> None:
    """
    Raises:
        InputError: a learning rate that cannot work, or what owners of tables do not do.
    """
    for name, why in _REFUSED.items():
        if group.get(name):
            raise InputError(f"{name}={group[name]!r} is not done at the tables' owners: {why}; leave it out")
    learning_rate(group)


def learning_rate(group: Mapping[str, Any]) -> float:
    """Of a group.

    Raises:
        InputError: it is no finite number of at least 0.
    """
    lr = number("lr", group["lr"])
    if not (lr >= 0 and math.isfinite(lr)):
        raise InputError(f"lr={group['lr']} is to be a finite number of at least 0")
    return lr


def number(name: str, value: Any) -> float:
    """An argument that is a number, or a tensor of one.

    Raises:
        InputError: it is none.
    """
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}={value!r} is no number; give one, such as 0.01") from error
