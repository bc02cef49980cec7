"""The laws that syntax can tell: imports point one way, every dependency has one door, and some things are never done."""

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.golden.parts.signatures import public_names

SRC = Path(__file__).parents[1] / "src" / "halohop"

# A module imports from its own layer and from those before it. "__init__" is halohop/__init__.py, the public names.
LAYERS = (
    *(
        "errors",
        "linux",
        "flags",
        "alive",
        "typing",
        "world",
        "cores",
        "interfaces",
        "memory",
        "telemetry",
        "leased",
        "uninterrupted",
        "attempts",
        "files",
        "process_group",
    ),
    *("collectives", "ops", "store", "partitioning", "transport", "tables", "init", "cluster", "sampling", "net"),
    *(
        "loading",
        "tensors",
        "optim",
        "access",
        "pyg",
        "nn",
        "samplers",
        "datasets",
        "hosts",
        "placement",
        "records",
        "security",
        "slices",
        "__init__",
        "inference",
        "recipes",
        "job_file",
        "dgl",
        "glt",
        "launch",
    ),
    *("__main__", "testing"),
)

EVERYWHERE = {"torch", "numpy", "msgspec"}

# The longest matching name counts. A library that is in neither list is refused.
DOORS: dict[str, tuple[str, ...]] = {
    "numba": ("ops/cpu_*.py", "ops/warmup.py"),
    "llvmlite": ("ops/cpu_*.py", "ops/warmup.py"),
    "triton": ("ops/gpu_*.py",),
    "torch_geometric": ("pyg/*", "nn/*", "samplers/*", "datasets/pyg_*.py", "recipes/*", "dgl/*", "glt/*"),
    "dgl": ("dgl/interop.py",),
    "torch.distributed": ("attempts.py", "optim/*", "process_group.py", "collectives.py", "net/*", "launch/*", "testing/*"),
    "cryptography": ("transport/tls.py",),
    "prometheus_client": ("loading/metrics.py",),
    "filelock": ("ops/cpu_kept.py", "ops/warmup.py"),
    "fsspec": ("files/url_folder.py",),
    "kaminpar": ("partitioning/assigners/kaminpar.py",),
    "pyarrow": ("datasets/*", "files/parquet.py", "inference/*", "cluster/tables/export.py"),
    "ray": ("launch/*",),
    "typer": ("launch/*",),
    "rich": ("launch/*",),
    "yaml": ("launch/*", "glt/launch.py"),
}

NEVER = {
    **dict.fromkeys(("pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"), "runs whatever a file or peer sends"),
    **dict.fromkeys(("numpy.memmap", "numpy.lib.format.open_memmap"), "a full disk ends a process that maps a file for writing"),
    "time.sleep": "wait for the event, with a deadline",
}

# Between a process and its own forked child, over a socket pair that nobody else has.
# And what reads another library's files, by a list of the names that they may hold.
EXCEPT = {"loading/channel.py": "pickle", "datasets/imports/restricted.py": "pickle"}

REQUIRED_ARGUMENTS = {"torch.load": ("weights_only", True), "numpy.load": ("allow_pickle", False)}

MAX_LINES = 330

# These are programs on top of the library: they import its public names, as a user's program does.
APPLICATIONS = {"recipes", "job_file", "dgl", "glt"}

PUBLIC = frozenset(f"halohop.{name}" for name in public_names())
PUBLIC_MODULES = frozenset({"halohop", *(name.rpartition(".")[0] for name in PUBLIC)})


def problems(source: str, path: str) -> list[str]:
    """All offences of a module, given its source and its path under src/halohop."""
    layer = Path(path).parts[0].removesuffix(".py")
    if layer not in LAYERS:
        return [f"{path}:1: {layer!r} has no place in LAYERS"]
    tree = ast.parse(source)
    nodes = [*ast.walk(tree)]
    found = list(_shape(tree, source))
    aliases: dict[str, str] = {}
    for line, name, alias in _imports(nodes, path):
        aliases[alias] = name
        found += [(line, text) for text in _import_offences(name, path, layer)]
    for node in nodes:
        found += [(getattr(node, "lineno", 1), text) for text in _use_offences(node, aliases, path, layer)]
    return [f"{path}:{line}: {text}" for line, text in sorted(set(found))]


def _shape(tree: ast.Module, source: str) -> Iterator[tuple[int, str]]:
    if tree.body and not ast.get_docstring(tree):
        yield 1, "no module docstring"
    if (lines := len(source.splitlines())) > MAX_LINES:
        yield lines, f"{lines} lines, more than {MAX_LINES}: two concerns?"


def _imports(nodes: list[ast.AST], path: str) -> Iterator[tuple[int, str, str]]:
    """(line, full name, name that it is bound to) of all imports, wherever they stand, relative and dynamic ones too."""
    package = ("halohop", *Path(path).parent.parts)
    for node in nodes:
        if isinstance(node, ast.Import):
            for item in node.names:
                yield node.lineno, item.name, item.asname or item.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *([node.module] if node.module else [])))
            for item in node.names:
                yield node.lineno, f"{base}.{item.name}", item.asname or item.name
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            argument = node.args[0]
            if called in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                yield node.lineno, str(argument.value), ""


def _import_offences(name: str, path: str, layer: str) -> Iterator[str]:
    root, *rest = name.split(".")
    if root == "halohop":
        target = rest[0] if rest and rest[0] in LAYERS else "__init__"
        if LAYERS.index(target) > LAYERS.index(layer):
            yield f"{name} lies above {layer}"
        elif layer in APPLICATIONS and target not in APPLICATIONS:
            yield from _private_offences(name)
        return
    yield from _name_offences(name, path)
    if root not in EVERYWHERE | sys.stdlib_module_names and _longest(name, DOORS) is None:
        yield f"{root} has no door: give it one in DOORS"


def _private_offences(name: str) -> Iterator[str]:
    """An application's use of what is not public: ``halohop.cluster.graph.Graph``, and not ``halohop.Graph.locate``."""
    known = PUBLIC | PUBLIC_MODULES
    parents = [name.rsplit(".", count)[0] for count in range(name.count(".") + 1)]
    if not any(parent in PUBLIC for parent in parents) and name not in known:
        yield f"{name} is not public: tests/golden/files/signatures.json lists what is"


def _name_offences(name: str, path: str) -> Iterator[str]:
    """Offences of naming something of another library, in an import or in the code."""
    door = _longest(name, DOORS)
    if door and not any(fnmatch(path, pattern) for pattern in DOORS[door]):
        yield f"{door} outside its door, {' '.join(DOORS[door])}"
    never = _longest(name, NEVER)
    if never and never != EXCEPT.get(path):
        yield f"{never}: {NEVER[never]}"


def _longest(name: str, known: dict[str, object]) -> str | None:
    return max((key for key in known if name == key or name.startswith(f"{key}.")), key=len, default=None)


def _use_offences(node: ast.AST, aliases: dict[str, str], path: str, layer: str) -> Iterator[str]:
    if isinstance(node, ast.Global):
        yield "global: state belongs to an object"
    if isinstance(node, ast.Attribute | ast.Name) and (name := _full_name(node, aliases)):
        yield from _name_offences(name, path)
        if layer in APPLICATIONS and name.startswith("halohop.") and name.split(".")[1] not in APPLICATIONS:
            yield from _private_offences(name)
    if isinstance(node, ast.Call):
        called = _full_name(node.func, aliases)
        if called in REQUIRED_ARGUMENTS and not _passes(node, *REQUIRED_ARGUMENTS[called]):
            yield f"{called} without {'='.join(map(str, REQUIRED_ARGUMENTS[called]))}"
        if called == "isinstance" and LAYERS.index(layer) < LAYERS.index("pyg") and _asks_for_dict(node):
            yield "isinstance(_, dict): below the faces a graph is always typed"


def _full_name(node: ast.AST, aliases: dict[str, str]) -> str:
    """The imported thing that `torch.distributed.barrier`, `dist.barrier` or `barrier` means; "" for anything else."""
    if isinstance(node, ast.Attribute):
        owner = _full_name(node.value, aliases)
        return f"{owner}.{node.attr}" if owner else ""
    if isinstance(node, ast.Name):
        name = aliases.get(node.id, node.id if node.id == "isinstance" else "")
        return name.split(".")[0] if name.startswith(f"{node.id}.") else name  # `import a.b` binds a
    return ""


def _passes(call: ast.Call, keyword: str, value: bool) -> bool:
    return any(k.arg == keyword and isinstance(k.value, ast.Constant) and k.value.value is value for k in call.keywords)


def _asks_for_dict(call: ast.Call) -> bool:
    return any(isinstance(n, ast.Name) and n.id in ("dict", "Mapping", "MutableMapping") for n in ast.walk(call.args[-1]))


def test_every_module_keeps_the_laws() -> None:
    assert [
        problem for path in sorted(SRC.rglob("*.py")) for problem in problems(path.read_text(), str(path.relative_to(SRC)))
    ] == []


BAD = [
    ("sampling/x.py", "from halohop.loading import loader", "above sampling"),
    ("sampling/x.py", "import halohop.loading.loader", "above sampling"),
    ("sampling/x.py", "from halohop import loading", "above sampling"),
    ("sampling/x.py", "from halohop import NeighborLoader", "above sampling"),
    ("sampling/x.py", "import halohop", "above sampling"),
    ("sampling/x.py", "from ..loading.loader import Loader", "above sampling"),
    ("sampling/x.py", "from .. import loading", "above sampling"),
    ("sampling/deep/x.py", "from ...loading import Loader", "above sampling"),
    ("sampling/x.py", "def f():\n    from halohop.loading import loader", "above sampling"),
    ("sampling/x.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import halohop.pyg", "above sampling"),
    ("sampling/x.py", "import importlib\nimportlib.import_module('halohop.pyg')", "above sampling"),
    ("sampling/x.py", "from halohop.samplers.walks import Walker", "above sampling"),
    ("loading/x.py", "from halohop.samplers import saint", "above loading"),
    ("pyg/x.py", "from halohop.samplers.hgt import HGTSampler", "above pyg"),
    ("errors.py", "import halohop.world", "above errors"),
    ("__init__.py", "from halohop import testing", "above __init__"),
    ("__init__.py", "from halohop.launch import cli", "above __init__"),
    ("recipes/x.py", "from halohop.cluster.graph import Graph", "halohop.cluster.graph.Graph is not public"),
    ("recipes/x.py", "from halohop.datasets.splits import time_masks", "halohop.datasets.splits.time_masks is not public"),
    ("recipes/x.py", "from halohop.errors import _private", "halohop.errors._private is not public"),
    ("recipes/x.py", "from halohop import ops", "halohop.ops is not public"),
    ("recipes/x.py", "import halohop.net.open", "halohop.net.open is not public"),
    ("recipes/x.py", "import halohop\nhalohop.cluster.graph.Graph()", "halohop.cluster.graph.Graph is not public"),
    ("misc/x.py", "x = 1", "no place in LAYERS"),
    ("ops/__init__.py", "import numba", "numba outside"),
    ("ops/cpu_x.py", "import triton.language as tl", "triton outside"),
    ("loading/x.py", "from torch_geometric.data import Data", "torch_geometric outside"),
    ("cluster/x.py", "import cryptography", "cryptography outside"),
    ("loading/x.py", "import torch.distributed as dist", "torch.distributed outside"),
    ("loading/x.py", "from torch import distributed", "torch.distributed outside"),
    ("loading/x.py", "import torch\ntorch.distributed.barrier()", "torch.distributed outside"),
    ("loading/x.py", "import torch.nn\ntorch.distributed.barrier()", "torch.distributed outside"),
    ("loading/x.py", "import torch as t\nt.distributed.barrier()", "torch.distributed outside"),
    ("loading/x.py", "import pandas", "no door"),
    ("testing/x.py", "import pytest", "no door"),
    ("testing/x.py", "from tests.support import hosts", "no door"),
    ("transport/x.py", "import pickle", "pickle"),
    ("transport/x.py", "from pickle import dumps", "pickle"),
    ("loading/worker.py", "import pickle", "pickle"),
    ("loading/channel.py", "import marshal", "marshal"),
    ("transport/x.py", "__import__('pickle')", "pickle"),
    ("recipes/x.py", "import numpy as np\nnp.lib.format.open_memmap('x', mode='w+')", "a full disk"),
    ("transport/x.py", "import time\ntime.sleep(1)", "time.sleep"),
    ("transport/x.py", "import time as t\nt.sleep(1)", "time.sleep"),
    ("transport/x.py", "from time import sleep", "time.sleep"),
    ("recipes/x.py", "import torch\ntorch.load('x')", "torch.load without weights_only=True"),
    ("recipes/x.py", "import torch\ntorch.load('x', weights_only=False)", "torch.load without"),
    ("recipes/x.py", "from torch import load as restore\nrestore('x')", "torch.load without"),
    ("store/x.py", "import numpy as np\nnp.load('x')", "numpy.load without allow_pickle=False"),
    ("store/x.py", "import numpy as np\nnp.load('x', allow_pickle=True)", "numpy.load without"),
    ("loading/x.py", "isinstance(1, dict)", "always typed"),
    ("loading/x.py", "isinstance(1, (int, dict))", "always typed"),
    ("loading/x.py", "isinstance(1, int | dict)", "always typed"),
    ("loading/x.py", "def f():\n    global x", "global"),
    ("loading/x.py", "x = 0\n" * MAX_LINES, "more than"),
]

GOOD = [
    (
        "sampling/x.py",
        "from halohop.store import part\nfrom . import batch\nfrom .batch import Batch\nfrom halohop.sampling import y",
    ),
    ("__init__.py", "from .loading import Loader"),
    ("recipes/x.py", "import halohop\nhalohop.World.from_env()"),
    ("recipes/x.py", "from halohop import Graph, inference\nfrom halohop.datasets import time_masks\ninference.infer()"),
    ("recipes/x.py", "import halohop.errors\nfrom halohop.recipes.task import Task\nhalohop.errors.InputError('x')"),
    ("testing/x.py", "import halohop\nimport torch.distributed"),
    ("ops/cpu_x.py", "import numba\nfrom numba import njit"),
    ("ops/gpu_x.py", "import triton"),
    ("pyg/x.py", "from torch_geometric.data import Data\nisinstance(1, dict)"),
    ("net/x.py", "import torch.distributed as dist\ndist.barrier()"),
    ("transport/x.py", "import socket\nimport time\ntime.monotonic()\nself.sleep()\nload('x')"),
    ("recipes/x.py", "import torch\ntorch.load('x', weights_only=True)\ntorch.save({}, 'x')\nmodel.load('x')"),
    ("store/x.py", "import numpy as np\nnp.load('x', allow_pickle=False)"),
    ("loading/x.py", "isinstance(1, str)\ndict(a=1)"),
]


@pytest.mark.parametrize(("path", "source", "offence"), BAD)
def test_checker_finds(path: str, source: str, offence: str) -> None:
    assert offence in "\n".join(problems(f'"""Doc."""\n{source}\n', path))


@pytest.mark.parametrize(("path", "source"), GOOD)
def test_checker_permits(path: str, source: str) -> None:
    assert problems(f'"""Doc."""\n{source}\n', path) == []


def test_checker_wants_a_docstring_unless_the_module_is_empty() -> None:
    assert problems("x = 1\n", "world.py") == ["world.py:1: no module docstring"]
    assert problems("", "store/__init__.py") == []
