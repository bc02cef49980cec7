"""Data sets of PyG's by name: ``pyg:NAME[?key=value]``, for every class of `torch_geometric.datasets` that holds a graph.

PyG downloads, reads and keeps them, and unpickles what it has kept: name a root that only you write to.
"""

import copy
import difflib
import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import torch
from torch import Tensor
from torch_geometric import datasets
from torch_geometric.data import Data, Dataset, HeteroData, TemporalData

from halohop.datasets.pyg_file import containers_allowed
from halohop.errors import InputError
from halohop.pyg.attributes import stores_of
from halohop.pyg.convert import tables_from_pyg
from halohop.store.tables import GraphTables
from halohop.typing import NODE

ROOT = "data"
"""Where data sets lie unless `root` says otherwise."""

_OWN = {"graph": int, "mask": int, "typed": bool, "sparse": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """What a source ``pyg:...`` asks for.

    Args:
        text: all of it.
        kind: the class.
        options: its arguments.
        graph: which of several graphs.
        mask: which column of masks ``[n, k]``.
        typed, sparse: as of `read_pyg`.
    """

    text: str
    kind: type[Dataset]
    options: dict[str, Any]
    graph: int | None = None
    mask: int | None = None
    typed: bool = False
    sparse: bool = False


def read_pyg(source: str) -> GraphTables:
    """A graph of one of PyG's data sets, as its class makes it; its files are downloaded into `root` unless they lie there.

    Index lists (``train_idx`` and ``train_y``, as AIFB's) become masks and labels; the events of a `TemporalData` edges with the
    column ``time``.

    Args:
        source: ``pyg:CLASS`` or ``pyg:CLASS/NAME``, and behind a ``?`` the arguments of the class, such as
            ``pyg:Amazon/Computers?root=data`` or ``pyg:Entities/AIFB?hetero=true``. Four more say what is made of it:
            ``graph=N`` takes one of several graphs, ``mask=N`` one of several splits (masks ``[n, k]``), ``typed=true`` makes a
            relation of each value of ``edge_type``, and ``sparse=true`` stores only the entries of ``x`` that are not zero.

    Raises:
        InputError: there is no such class, name or key, the files are not there and cannot be downloaded, or PyG needs another
            library to read them.

    Example:
        >>> tables = read_pyg("pyg:KarateClub")
        >>> tables.nodes["node"].num_nodes, sorted(tables.nodes["node"].columns)
        (34, ['train_mask', 'x', 'y'])
    """
    named = _parsed(source)
    data = _graph_of(named)
    if isinstance(data, TemporalData):
        data = _with_edges(data)
    _mark_splits(data)
    if named.typed:
        data = _typed(data, named)
    for _, store in stores_of(data):
        _choose_masks(store, named)
        if named.sparse and isinstance(store.get("x"), Tensor):
            store.x = store.x.to_sparse()
    return tables_from_pyg(data)


def _parsed(source: str) -> _Named:
    """The class and its arguments, each of which it takes."""
    path, _, query = source.removeprefix("pyg:").partition("?")
    class_name, _, name = path.partition("/")
    kind = _class_of(source, class_name)
    arguments = inspect.signature(kind).parameters.values()
    takes = {one.name: one for one in arguments if one.kind != one.VAR_KEYWORD and "Callable" not in str(one.annotation)}
    given = dict(parse_qsl(query, keep_blank_values=True))
    if name:
        given["name"] = name
    own = {key: _own(source, key, given.pop(key)) for key in _OWN if key in given}
    unknown = [key for key in given if key not in takes]
    if unknown and not any(one.kind == one.VAR_KEYWORD for one in arguments):
        raise InputError(f"{source!r}: PyG's {class_name} does not take {unknown[0]!r}; known: {', '.join([*takes, *_OWN])}")
    if "root" in takes:
        given.setdefault("root", ROOT)
    missing = [key for key, one in takes.items() if one.default is one.empty and key not in given]
    if missing:
        place = f"pyg:{class_name}/NAME" if missing[0] == "name" else f"?{missing[0]}=..."
        raise InputError(f"{source!r}: PyG's {class_name} needs {missing[0]!r}; write {place}")
    texts = {key for key, one in takes.items() if one.annotation in (str, "str")}
    options = {key: text if key in texts else _value(text) for key, text in given.items()}
    return _Named(text=source, kind=kind, options=options, **own)


def _class_of(source: str, name: str) -> type[Dataset]:
    kind = getattr(datasets, name, None)
    if isinstance(kind, type) and issubclass(kind, Dataset):
        return kind
    near = " or ".join(difflib.get_close_matches(name, datasets.__all__))
    remedy = f"did you mean {near}?" if near else "torch_geometric.datasets lists them"
    raise InputError(f"{source!r}: PyG has no data set {name!r}; {remedy}")


def _own(source: str, key: str, text: str) -> Any:
    """The value of one of our own keys."""
    value = _value(text)
    if type(value) is not _OWN[key]:
        raise InputError(f"{source!r}: {key}={text} is {'neither true nor false' if _OWN[key] is bool else 'no whole number'}")
    return value


def _value(text: str) -> Any:
    """A number or a truth value where the text is one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text


def _graph_of(named: _Named) -> Any:
    """Makes the data set, and takes a graph from it."""
    dataset = _made(named)
    if named.graph is None and len(dataset) != 1:
        raise InputError(f"{named.text!r} holds {len(dataset)} graphs; name one of them, such as ?graph=0")
    try:
        data = dataset[named.graph or 0]
    except IndexError as error:
        raise InputError(
            f"{named.text!r}: graph must be below {len(dataset)}, the number of graphs, got {named.graph}"
        ) from error
    if not isinstance(data, Data | HeteroData | TemporalData):
        raise InputError(f"{named.text!r} holds a {type(data).__name__}, and no single graph")
    return copy.copy(data)  # the data set may keep it


def _made(named: _Named) -> Dataset:
    try:
        with containers_allowed():  # so that PyG need not unpickle what it has kept
            return _naming_files(named.kind)(**named.options)
    except InputError:
        raise
    except ImportError as error:
        raise InputError(f"{named.text!r}: PyG reads this data set with {error.name}; pip install {error.name}") from error
    except (AssertionError, KeyError) as error:  # how most classes refuse a name that they do not know
        shown = ", ".join(f"{key}={value!r}" for key, value in named.options.items())
        raise InputError(f"{named.text!r}: PyG's {named.kind.__name__} does not take {shown}; see its documentation") from error
    except Exception as error:  # whatever its reader makes of a file
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(
            f"{named.text!r} cannot be read ({reason}); are the files below {named.options.get('root')!r} those of this data set?"
        ) from error


def _naming_files(kind: type[Dataset]) -> type[Dataset]:
    """The same class, whose failure to download says which files belong where."""

    def download(self: Any) -> None:
        try:
            kind._download(self)
        except Exception as error:  # of one of the libraries that PyG downloads with
            files = self.raw_file_names
            raise InputError(
                f"{self.raw_dir} lacks files of PyG's {kind.__name__}, which cannot be downloaded now ({error}); connect to the "
                f"internet, put {', '.join([files] if isinstance(files, str) else files)} there, or name another root"
            ) from error

    return type(kind.__name__, (kind,), {"_download": download, "__module__": kind.__module__})


def _with_edges(events: TemporalData) -> Data:
    """A graph with an edge for each event."""
    columns: Mapping[str, Any] = events.to_dict()
    rest = {key: value for key, value in columns.items() if key not in ("src", "dst", "t", "msg")}
    attributes = rest | ({} if columns.get("msg") is None else {"edge_attr": columns["msg"]})
    ends = torch.stack([events.src, events.dst])
    data = Data(edge_index=ends, time=events.t, num_nodes=int(ends.max()) + 1 if ends.numel() else 0)
    for key, value in attributes.items():
        data[key if key.startswith("edge_") else f"edge_{key}"] = value
    return data


def _typed(data: Any, named: _Named) -> HeteroData:
    """A relation for each edge type that occurs, called by its number."""
    if not isinstance(data, Data) or data.get("edge_type") is None or data.get("node_type") is not None:
        raise InputError(
            f"{named.text!r} is not a graph of one node type with an edge_type, so typed=true has no effect; leave it out"
        )
    values, edge_type = data.edge_type.unique(return_inverse=True)  # PyG expects 0, 1, 2, ... without gaps
    relations = [(NODE, str(value), NODE) for value in values.tolist()]
    node_type = torch.zeros(data.num_nodes, dtype=torch.int64)
    typed = data.to_heterogeneous(node_type, edge_type, [NODE], relations)
    typed[NODE].num_nodes = data.num_nodes
    return typed


def _mark_splits(data: Data | HeteroData) -> None:
    """Masks and labels in place of lists of nodes, of a graph of one node type."""
    if isinstance(data, HeteroData) and len(data.node_types) != 1:
        return
    lists, nodes = data.stores[0], data if isinstance(data, Data) else data[data.node_types[0]]
    num_nodes = nodes.num_nodes
    for split in [key.removesuffix("_idx") for key in list(lists) if key.endswith("_idx")]:
        if f"{split}_y" in lists:
            rows, labels = lists.pop(f"{split}_idx"), lists.pop(f"{split}_y")
            if "y" not in nodes:
                nodes.y = torch.full((num_nodes,), -1)
            nodes.y[rows] = labels
            nodes[f"{split}_mask"] = torch.zeros(num_nodes, dtype=torch.bool).index_fill_(0, rows, True)


def _choose_masks(store: Any, named: _Named) -> None:
    """One split where there are several."""
    for key in [key for key in list(store) if key.endswith("_mask")]:
        mask = store[key]
        if not isinstance(mask, Tensor) or mask.dim() != 2:
            continue
        if named.mask is None or not 0 <= named.mask < mask.shape[1]:
            raise InputError(f"{named.text!r}: {key} holds {mask.shape[1]} splits; name one of them, such as ?mask=0")
        store[key] = mask[:, named.mask]
