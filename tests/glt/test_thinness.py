"""The face is thin: it translates names, and what does the work is halohop's."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FACE = Path(__file__).parents[2] / "src" / "halohop" / "glt"
MOST_LINES = 2890

WORK = {
    **dict.fromkeys(("threading", "_thread", "concurrent", "asyncio", "queue"), "a thread"),
    **dict.fromkeys(("socket", "ssl", "selectors", "socketserver", "http"), "a socket"),
    **dict.fromkeys(("multiprocessing", "torch.multiprocessing", "subprocess", "os.fork", "signal"), "a process"),
    **dict.fromkeys(("torch.distributed", "torch.distributed.rpc"), "torch.distributed"),
    **dict.fromkeys(("random", "secrets", "numpy.random", "torch.rand", "torch.randn", "torch.randint"), "a random number"),
    **dict.fromkeys(("torch.multinomial", "torch.bernoulli", "torch.poisson"), "a random number"),
    **dict.fromkeys(("torch.ops.pyg", "torch_geometric.sampler.neighbor_sampler", "pyg_lib", "torch_sparse"), "a sampler"),
}
"""What the engine does, by the names that do it elsewhere."""


def work(source: str, path: str) -> Iterator[str]:
    """What a module does itself that the engine is for."""
    aliases: dict[str, str] = {}
    names: list[str] = []
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                aliases[item.asname or item.name.split(".")[0]] = item.name if item.asname else item.name.split(".")[0]
                names.append(item.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for item in node.names:
                aliases[item.asname or item.name] = f"{node.module}.{item.name}"
                names.append(f"{node.module}.{item.name}")
    for node in ast.walk(tree):
        parts, owner = [], node
        while isinstance(owner, ast.Attribute):
            parts.append(owner.attr)
            owner = owner.value
        if parts and isinstance(owner, ast.Name) and owner.id in aliases:
            names.append(".".join([aliases[owner.id], *reversed(parts)]))
    for name in names:
        for known, what in WORK.items():
            if name == known or name.startswith(f"{known}."):
                yield f"{path}: {name} is {what} of its own"


def test_the_face_does_no_work_of_its_own() -> None:
    found = [fault for path in FACE.rglob("*.py") for fault in work(path.read_text(), str(path.relative_to(FACE)))]
    assert sorted(set(found)) == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import threading", "a thread"),
        ("from concurrent.futures import ThreadPoolExecutor", "a thread"),
        ("import socket as s", "a socket"),
        ("from torch import distributed", "torch.distributed"),
        ("import torch\ntorch.distributed.barrier()", "torch.distributed"),
        ("import torch.distributed as dist", "torch.distributed"),
        ("import torch.multiprocessing as mp", "a process"),
        ("import torch as t\nt.randint(3, (2,))", "a random number"),
        ("import numpy as np\nnp.random.rand()", "a random number"),
        ("from torch import multinomial", "a random number"),
    ],
)
def test_work_is_found(source: str, what: str) -> None:
    assert next(work(source, "x.py")).endswith(f" is {what} of its own")


def test_names_of_our_own_are_no_work() -> None:
    source = "import torch\nimport halohop\nfrom halohop.glt.batches import to_glt\ntorch.initial_seed(), torch.stack([])"
    assert list(work(source, "x.py")) == []


def lines_of_code(source: str) -> int:
    """Lines without docstrings, comments and empty lines."""
    tree = ast.parse(source)
    with_text = (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    texts = [node.body[0] for node in with_text if ast.get_docstring(node) is not None]
    documented = {line for text in texts for line in range(text.lineno, (text.end_lineno or text.lineno) + 1)}
    left = (line.strip() for number, line in enumerate(source.splitlines(), 1) if number not in documented)
    return sum(bool(line) and not line.startswith("#") for line in left)


def test_the_face_stays_short() -> None:
    """GLT has 120 names with long signatures; what is beyond them belongs to the engine."""
    assert sum(lines_of_code(path.read_text()) for path in FACE.rglob("*.py")) < MOST_LINES


def test_lines_of_code_are_counted() -> None:
    source = '"""Doc.\n\nMore."""\n\nimport ast  # why\n\n\ndef f():\n    """Doc."""\n    # why\n    return ast\n'
    assert lines_of_code(source) == 3
