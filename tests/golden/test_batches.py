"""Batches are those kept, and the same wherever the graph is stored, whoever makes them, and in whatever order."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import halohop
import halohop.dgl as dgl
from halohop.testing.worlds import TOKEN, free_addresses, hosts
from tests.golden import faces, kept
from tests.golden.graphs import DATA, direction, slices
from tests.golden.loaders import CALLS, DIVIDED, LOADERS
from tests.golden.parts import batches

pytestmark = pytest.mark.xdist_group("golden batches")  # one process makes the partitions

Folders = Mapping[tuple[str, int], Path]
PARTS = (1, 2, 4)
MADE_BY_PROCESSES = (
    *(
        "nodes",
        "nodes, shuffled",
        "nodes, disjoint",
        "nodes, times of edges",
        "nodes, bidirectional",
        "nodes, sparse features as CSR",
    ),
    *("nodes, pad=bound", "links, triplets, strict, disjoint", "HGT", "clusters, a column", "PageRank", "SAINT, walks, norms"),
    "a function of one's own",
)
"""One of each kind of content: worker processes cost more than threads, and make the same."""

ASKED_OF_OTHERS = (
    *(
        "nodes",
        "nodes, shuffled",
        "nodes, expand=all",
        "nodes, replace",
        "nodes, weights, disjoint",
        "nodes, times of edges, window",
    ),
    *(
        "nodes, times of nodes, last",
        "nodes, labor, layer_dependency",
        "nodes, induced",
        "nodes, bidirectional",
        "nodes, pad=bound",
    ),
    *("nodes, out-edges, toward_seeds", "nodes, sparse features as CSR", "links, binary, strict", "links, triplets"),
    *("links, exclude both relations", "links, times", "subgraphs", "HGT", "clusters, a column", "PageRank", "SAINT, edges"),
    *("a function of one's own", "random_walk, p and q", "random_walk, weights, edges", "HalohopSampler, negatives"),
)
"""One of each kind of request: what goes through sockets or is read from disk costs more."""


def check(names: Any, made: Mapping[str, Any], *, where: str) -> None:
    """Compares the batches that were made with those kept of these loaders.

    Args:
        names: of loaders.
        made: hashes of batches.
        where: what the message says of their making.
    """
    if batches.permutation() != kept.load("batches")[batches.PERMUTATION]:
        names = [name for name in names if not shuffles(name)]
        made = {case: value for case, value in made.items() if not shuffles(case)}
    among = [
        case for case in kept.load("batches") if case.partition(" > ")[0] in names and _epoch(case) <= max(map(_epoch, made))
    ]
    try:
        kept.check("batches", made, among=among)
    except AssertionError as error:
        cases = kept.load("batches")
        loaders = {case.partition(" > ")[0] for case in {*among, *made} if cases.get(case) != made.get(case)}
        text = f"batches of {where} differ for {len(loaders)} of {len(names)} loaders: {'; '.join(sorted(loaders))}"
        raise AssertionError(f"{text}\n{error}") from None


def shuffles(case: str) -> bool:
    """True if torch's permutations decide the order of seeds."""
    return "shuffled" in case or "locality" in case


def _epoch(case: str) -> int:
    return int(case.partition(" > epoch ")[2].partition(" ")[0])


def made(names: Any, loader_of: Callable[[str], Any], *, epochs: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        try:
            found |= batches.hashed(name, batches.first_epochs(loader_of(name), epochs))
        except Exception as error:
            error.add_note(f"loader: {name}")
            raise
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    root = tmp_path_factory.mktemp("golden")
    return {
        (source, num_parts): batches.divide(source, num_parts, root / f"{source}-{num_parts}")
        for source in DATA
        for num_parts in PARTS
    }


# halohop's loaders


def test_batches_are_those_kept() -> None:
    names = batches.SOURCES
    check(names, made(names, batches.reference, epochs=2), where="undivided graphs, one after the other")


@contextmanager
def on_hosts(folder: Path) -> Iterator[halohop.Graph]:
    with hosts(folder, [[0], [1, 2, 3]]) as graphs:
        yield graphs[1]


@contextmanager
def on_servers(folder: Path, sampling: Any) -> Iterator[halohop.Graph]:
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for address, share in zip(addresses, ([0, 1], [2, 3]), strict=True):
            peers = [other for other in addresses if other != address]
            stack.enter_context(halohop.serve(folder, partitions=share, listen=address, peers=peers, token=TOKEN))
        yield stack.enter_context(halohop.connect(addresses, sampling=sampling, token=TOKEN))


SERVERS, CLIENT = "2 servers with 4 partitions", "2 servers with 4 partitions, sampled by the client"
LOADERS_OF = {
    "4 partitions": tuple(LOADERS),
    SERVERS: tuple(name for name in ASKED_OF_OTHERS if name.startswith(("nodes", "links", "subgraphs", "clusters"))),
}
"""Loaders of the places that do not make the batches of `ASKED_OF_OTHERS`; servers sample for some loaders only."""

PLACES: dict[str, Callable[[Folders, str], Any]] = {
    "1 partition": lambda folders, source: halohop.open(folders[source, 1]),
    "2 partitions": lambda folders, source: halohop.open(folders[source, 2]),
    "4 partitions": lambda folders, source: halohop.open(folders[source, 4]),
    "4 partitions, more than memory": lambda folders, source: halohop.open(folders[source, 4], memory=0, hot_memory=1000),
    "3 partitions of tensors": lambda folders, source: halohop.open(slices(source, 3)),
    "2 hosts with 4 partitions": lambda folders, source: on_hosts(folders[source, 4]),
    SERVERS: lambda folders, source: on_servers(folders[source, 4], "servers"),
    CLIENT: lambda folders, source: on_servers(folders[source, 4], "client"),
}
REPEATED = ("2 partitions", "4 partitions", CLIENT)
"""What others show already."""


@pytest.mark.parametrize("place", [pytest.param(place, marks=[pytest.mark.full] * (place in REPEATED)) for place in PLACES])
def test_batches_do_not_depend_on_where_the_graph_is(place: str, folders: Folders) -> None:
    found: dict[str, Any] = {}
    wanted = LOADERS_OF.get(place, ASKED_OF_OTHERS)
    for source in DATA:
        names = [name for name in wanted if LOADERS[name][0] == source]
        with PLACES[place](folders, source) as graph:
            found |= made(names, lambda name, graph=graph: LOADERS[name][1](graph, seed=batches.SEED, **threads(name)))
    check(wanted, found, where=place)


def threads(name: str) -> dict[str, Any]:
    return {} if name in CALLS else {"run": "threads", "num_workers": 2}


def test_batches_do_not_depend_on_processes(folders: Folders) -> None:
    found: dict[str, Any] = {}
    for name in MADE_BY_PROCESSES:
        source, make = LOADERS[name]
        with halohop.open(folders[source, 2]) as graph:
            found |= made(
                [name], lambda _, graph=graph, make=make: make(graph, seed=batches.SEED, run="processes", num_workers=2)
            )
    check(MADE_BY_PROCESSES, found, where="worker processes")


def test_batches_do_not_depend_on_where_an_epoch_resumes() -> None:
    """A loader makes the first batch, and an equal one, which gets its state, the others."""
    found: dict[str, Any] = {}
    data = {source: halohop.graph(make(), edge_dir=direction(source)) for source, make in DATA.items()}
    names = [name for name in ASKED_OF_OTHERS if name not in CALLS]
    for name in names:
        source, make = LOADERS[name]
        stopped, later = (make(data[source], seed=batches.SEED, run="inline") for _ in range(2))
        first = list(islice(stopped, 1))
        later.load_state_dict(stopped.state_dict())
        found |= batches.hashed(name, ((0, number, batch) for number, batch in enumerate([*first, *later])))
    check(names, found, where="epochs that resume")


def test_batches_that_depend_on_partitions(folders: Folders) -> None:
    found: dict[str, Any] = {}
    for name, (num_parts, make) in DIVIDED.items():
        with halohop.open(folders["typed", num_parts]) as graph:
            found |= made([name], lambda _, graph=graph, make=make: make(graph, seed=batches.SEED, num_workers=2))
    check(DIVIDED, found, where="partitions on which they depend")


def test_ranks_share_the_batches() -> None:
    """Rank r of 2 makes batch r of the first step; the second step is divided evenly."""
    cases = kept.load("batches")
    for rank in range(2):
        assert cases[f"nodes, rank {rank} of 2 > epoch 0 batch 0"] == alone(cases[f"nodes > epoch 0 batch {rank}"])


def alone(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without the columns that loaders of ranks leave out."""
    left_out = (".chosen", ".moment", ".part", ".time", ".train_mask", ".weight", ".when", ".y")
    return {name: value for name, value in fields.items() if not name.endswith(left_out)}


# the faces of DGL and GLT


@pytest.mark.parametrize("num_parts", PARTS)
def test_batches_of_dgl_do_not_depend_on_partitions(num_parts: int, tmp_path: Path) -> None:
    configs = {source: faces.divide_dgl(source, num_parts, tmp_path / source) for source in faces.DGL_GRAPHS}

    def loader(name: str) -> Any:
        source, make = faces.DGL[name]
        return make(dgl.distributed.DistGraph("it", part_config=configs[source]), seed=batches.SEED, num_workers=2)

    try:
        found = made(faces.DGL, loader)
    finally:
        dgl.distributed.exit_client()
    check(faces.DGL, found, where=f"a DistGraph of {num_parts} partitions")


def test_batches_of_glt_do_not_depend_on_threads() -> None:
    found = made(
        faces.GLT, lambda name: faces.GLT[name][1](faces.GLT_GRAPHS[faces.GLT[name][0]](), seed=batches.SEED, num_workers=2)
    )
    check(faces.GLT, found, where="two threads")
