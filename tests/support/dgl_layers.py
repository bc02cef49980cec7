"""Graphs of each kind that layers read, as halohop.dgl and as DGL, and comparisons of what layers of both make of them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Ends = tuple[Tensor, Tensor]

SHAPES: dict[str, tuple[int, int, int, bool]] = {
    # sources, destinations, edges, whether it is a block
    "graph": (12, 12, 60, False),
    "two kinds of nodes": (9, 7, 40, False),
    "block": (14, 6, 50, True),
    "block of one node": (5, 1, 5, True),
    "block without edges": (4, 3, 0, True),
    "graph without edges": (4, 4, 0, False),
    "more of the one end": (3, 30, 20, True),
}


def ends_of(shape: str, seed: int = 0) -> Ends:
    """Edges in no order, some of them twice, some nodes without any."""
    num_src, num_dst, num_edges, _ = SHAPES[shape]
    made = torch.Generator().manual_seed(seed)
    return torch.randint(num_src, (num_edges,), generator=made), torch.randint(num_dst, (num_edges,), generator=made)


def graph_of(dgl: Any, shape: str, ends: Ends | None = None) -> Any:
    """A graph of a shape, of halohop's face or of DGL itself."""
    num_src, num_dst, _, is_block = SHAPES[shape]
    ends = ends_of(shape) if ends is None else ends
    if is_block:
        return dgl.create_block(ends, num_src_nodes=num_src, num_dst_nodes=num_dst)
    if num_src == num_dst:
        return dgl.graph(ends, num_nodes=num_src)
    return dgl.heterograph({("user", "likes", "item"): ends}, num_nodes_dict={"user": num_src, "item": num_dst})


def filled(ends: Ends, shape: str) -> Ends:
    """The same edges and one more to each destination, so that none is without."""
    num_src, num_dst, _, _ = SHAPES[shape]
    return torch.cat([ends[0], torch.arange(num_dst) % num_src]), torch.cat([ends[1], torch.arange(num_dst)])


def made_alike(ours: Callable[[], nn.Module], theirs: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """Two layers of one seed, which must have the same names, shapes and initial values."""
    torch.manual_seed(3)
    our = ours()
    after = torch.get_rng_state()
    torch.manual_seed(3)
    their = theirs()
    assert torch.equal(after, torch.get_rng_state())
    our_state, their_state = our.state_dict(), their.state_dict()
    assert list(our_state) == list(their_state)
    for name, value in their_state.items():
        assert torch.equal(our_state[name], value), name
    return our, their


def same_results(
    our: nn.Module, their: nn.Module, graphs: tuple[Any, Any], feat: Any, *args: Any, gradients: bool = True, **kwargs: Any
) -> None:
    """Outputs and gradients towards rows, arguments and parameters, after the weights of each went to the other."""
    with torch.no_grad():
        for values in our.parameters():
            values.normal_(std=0.5)
    their.load_state_dict(our.state_dict())
    our.load_state_dict(their.state_dict())
    their_result = _results(their, graphs[1], feat, args, kwargs, gradients)
    our_result = _results(our, graphs[0], feat, args, kwargs, gradients)
    assert list(our_result) == list(their_result)
    for name, value in their_result.items():
        torch.testing.assert_close(our_result[name], value, rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


def _results(layer: nn.Module, graph: Any, feat: Any, args: Any, kwargs: Any, gradients: bool) -> dict[str, Tensor]:
    layer.zero_grad()
    leaves: dict[str, Tensor] = {}

    def leaf(value: Any, name: str) -> Any:
        if isinstance(value, tuple):
            return tuple(leaf(part, f"{name} {place}") for place, part in enumerate(value))
        if isinstance(value, dict):
            return {key: leaf(part, f"{name} {key}") for key, part in value.items()}
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        leaves[name] = value.clone().requires_grad_()
        return leaves[name]

    out = layer(graph, leaf(feat, "rows"), *leaf(args, "argument"), **leaf(kwargs, "option"))
    outs = _flat(out)
    if not gradients:
        return outs
    torch.manual_seed(9)
    total = sum(((rows * torch.randn_like(rows)).sum() for rows in outs.values()), torch.zeros(()))
    if total.requires_grad:
        total.backward()
    # No gradient and one of zeros are the same: without edges, some functions give the one, some the other.
    inputs = leaves | dict(layer.named_parameters())
    return outs | {
        f"gradient of {name}": torch.zeros_like(value) if value.grad is None else value.grad for name, value in inputs.items()
    }


def _flat(out: Any) -> dict[str, Tensor]:
    if isinstance(out, dict):
        return {f"rows {name}": rows.detach() if not rows.requires_grad else rows for name, rows in out.items()}
    return {f"result {place}": rows for place, rows in enumerate(out if isinstance(out, tuple) else (out,))}
