"""Lists of out-edges: every loader makes the batches of the graph whose edges are turned around, with its edges turned back."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import NegativeSampling

import halohop
from halohop import (
    ClusterLoader,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    HalohopGraphStore,
    HalohopSampler,
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
    PPRLoader,
    SubGraphLoader,
    ppr,
    random_walk,
)
from halohop.cluster.graph import in_memory as in_memory_graph
from halohop.errors import InputError
from halohop.inference import InferenceJob, infer
from halohop.pyg.convert import tables_from_pyg
from halohop.recipes.config import TrainConfig
from halohop.recipes.opening import opened
from halohop.sampling.batch import Seeds
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.disk import read_manifest
from halohop.store.draw import Rules
from halohop.store.manifest import decode, encode
from halohop.testing.oracle import Oracle
from halohop.testing.worlds import TOKEN, divided, free_addresses, hosts, memory_hosts, random_assignment
from halohop.typing import EDGE_ID

CITES, WRITES, BACK = ("paper", "cites", "paper"), ("author", "writes", "paper"), ("paper", "rev_writes", "author")
HALO = ("when", "raw_id")


def turned(relation: tuple[str, str, str]) -> tuple[str, str, str]:
    return relation[2], relation[1], relation[0]


def typed() -> HeteroData:
    generator = torch.Generator().manual_seed(0)

    def some(high: int, count: int) -> torch.Tensor:
        return torch.randint(high, (count,), generator=generator)

    data = HeteroData()
    for name, count in (("paper", 60), ("author", 25)):
        data[name].x, data[name].when = torch.rand(count, 2, generator=generator), some(90, count)
    for relation, (num_src, num_dst) in {CITES: (60, 60), WRITES: (25, 60), BACK: (60, 25)}.items():
        data[relation].edge_index = torch.stack([some(num_src, 200), some(num_dst, 200)])
        data[relation].weight = torch.rand(200, generator=generator)
        data[relation].time = some(90, 200)
    return data


def plain() -> Data:
    generator = torch.Generator().manual_seed(1)
    edge_index = torch.randint(50, (2, 140), generator=generator)
    return Data(x=torch.rand(50, 2, generator=generator), edge_index=edge_index, edge_attr=torch.arange(140))


def turned_around(data: Any) -> Any:
    """The graph with every edge the other way round."""
    if isinstance(data, Data):
        other = data.clone()
        other.edge_index = data.edge_index.flip(0)
        return other
    other = HeteroData()
    for name in data.node_types:
        other[name].update(data[name].to_dict())
    for relation in data.edge_types:
        other[turned(relation)].update(data[relation].to_dict())
        other[turned(relation)].edge_index = data[relation].edge_index.flip(0)
    return other


def papers(**options: Any) -> Callable[..., Any]:
    return lambda data, way, **how: NeighborLoader(data, [3, 2], ("paper", torch.arange(40)), batch_size=20, **options, **how)


FANOUTS = {CITES: [3, 1], WRITES: [0, -1], BACK: [2, 2]}
LOADERS: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "uniform": (typed, papers(shuffle=True)),
    "all": (typed, lambda data, way, **how: NeighborLoader(data, [-1, 2], ("author", None), batch_size=9, expand="all", **how)),
    "by relation": (
        typed,
        lambda data, way, **how: NeighborLoader(
            data, {way(relation): numbers for relation, numbers in FANOUTS.items()}, ("paper", None), batch_size=30, **how
        ),
    ),
    "weights": (typed, papers(weight_attr="weight", replace=True)),
    "times of edges": (typed, papers(time_attr="time", input_time=torch.arange(40) + 30)),
    "times of nodes": (typed, papers(time_attr="when", temporal_strategy="last")),
    "labor, disjoint": (typed, papers(method="labor", disjoint=True)),
    "induced": (typed, papers(subgraph_type="induced")),
    "padded": (typed, papers(pad="bound", drop_last=True)),
    "subgraphs": (
        typed,
        lambda data, way, **how: SubGraphLoader(data, [2], ("paper", torch.arange(20)), batch_size=10, **how),
    ),
    "HGT": (typed, lambda data, way, **how: HGTLoader(data, [6, 4], ("paper", torch.arange(20)), batch_size=10, **how)),
    "PPR": (plain, lambda data, way, **how: PPRLoader(data, 5, torch.arange(20), batch_size=8, **how)),
    "SAINT, nodes": (
        plain,
        lambda data, way, **how: GraphSAINTNodeSampler(data, 20, num_steps=3, sample_coverage=4, log=False, **how),
    ),
    "SAINT, walks": (plain, lambda data, way, **how: GraphSAINTRandomWalkSampler(data, 8, 3, num_steps=3, **how)),
}


@contextmanager
def on_disk(source: Callable[[], Any], folder: Path) -> Iterator[Any]:
    with halohop.open(folder) as graph:
        yield graph


@contextmanager
def on_hosts(source: Callable[[], Any], folder: Path) -> Iterator[Any]:
    with hosts(folder, [[0], [1, 2]]) as graphs:
        yield graphs[1]


@contextmanager
def on_servers(source: Callable[[], Any], folder: Path) -> Iterator[Any]:
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for address, share in zip(addresses, ([0], [1, 2]), strict=True):
            peers = [other for other in addresses if other != address]
            stack.enter_context(halohop.serve(folder, partitions=share, listen=address, peers=peers, token=TOKEN))
        yield stack.enter_context(halohop.connect(addresses, token=TOKEN))


@contextmanager
def own_on_hosts(source: Callable[[], Any], folder: Path) -> Iterator[Any]:
    tables = tables_from_pyg(source())
    first, *others = divided(tables, random_assignment(tables, 3), 3, edge_dir="out")
    with memory_hosts([[first], others], halo=halo_of(source)) as graphs:
        yield graphs[1]


@contextmanager
def in_memory(source: Callable[[], Any], folder: Path) -> Iterator[Any]:
    yield halohop.graph(source(), edge_dir="out")


def halo_of(source: Callable[[], Any]) -> tuple[str, ...]:
    return HALO if source is typed else ("raw_id",)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Path]:
    found = {}
    for source in (typed, plain):
        found[source] = tmp_path_factory.mktemp("out") / "parts"
        halohop.partition(source(), found[source], num_parts=3, method="random", halo=halo_of(source), edge_dir="out")
    return found


def assert_turned(batch: Any, other: Any) -> None:
    """The one is the other with its edges turned back; the order of edges, too."""
    assert len(batch.node_types if isinstance(batch, HeteroData) else [0]) == len(
        other.node_types if isinstance(other, HeteroData) else [0]
    )
    for mine, theirs in pairs_of(batch, other):
        assert set(mine.keys()) == set(theirs.keys())
        for key, value in mine.items():
            found = theirs[key].flip(0) if key == "edge_index" else theirs[key]
            assert torch.equal(value, found) if isinstance(value, torch.Tensor) else value == found, key


def pairs_of(batch: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(batch, Data):
        yield batch._store, other._store
        return
    yield from ((batch[name], other[name]) for name in batch.node_types)
    yield from ((batch[relation], other[turned(relation)]) for relation in batch.edge_types)


def same(relation: Any) -> Any:
    return relation


@pytest.mark.parametrize("name", LOADERS)
def test_batches_are_those_of_the_graph_turned_around(name):
    source, make = LOADERS[name]
    batches = list(make(source(), same, edge_dir="out", seed=4, run="inline"))
    others = list(make(turned_around(source()), turned, seed=4, run="inline"))
    assert len(batches) == len(others) > 1
    for batch, other in zip(batches, others, strict=True):
        assert_turned(batch, other)


@pytest.mark.parametrize(
    "rules", [Rules(), Rules(replace=True, weight="weight"), Rules(disjoint=True), Rules(subgraph="induced")]
)
def test_batches_are_those_of_the_oracle(rules):
    tables = tables_from_pyg(typed())
    graph = in_memory_graph(tables, edge_dir="out")
    sampler = NeighborSampler(graph, Fanouts.by_relation(FANOUTS, graph.schema), seed=5, rules=rules)
    seeds = torch.tensor([4, 40, 7])
    batch = sampler.sample(Seeds(node_type="paper", gid=seeds, input_id=torch.arange(3), epoch=1, index=2))
    expected = Oracle(tables, FANOUTS, seed=5, rules=rules, edge_dir="out").batch("paper", seeds.tolist(), epoch=1, index=2)
    assert {name: block.gid.tolist() for name, block in batch.nodes.items()} == expected.nodes
    for relation, found in batch.edges.items():
        (ids,) = graph.fetch_rows(relation, [EDGE_ID], found.gid)
        assert list(zip(*found.ends_bid.tolist(), ids.tolist(), strict=True)) == expected.edges[relation]


@pytest.mark.parametrize(
    "place",
    [on_hosts, *(pytest.param(place, marks=pytest.mark.full) for place in (in_memory, on_disk, on_servers, own_on_hosts))],
    ids=lambda place: place.__name__,
)
def test_wherever_the_graph_lies(folders, place):
    for source in (typed, plain):
        with place(source, folders[source]) as graph:
            for name, (needed, make) in LOADERS.items():
                if needed is source:
                    others = make(source(), same, edge_dir="out", seed=4, run="inline")
                    for batch, other in zip(make(graph, same, edge_dir="out", seed=4, num_workers=2), others, strict=True):
                        assert_equal(batch, other, name)


def assert_equal(batch: Any, other: Any, name: str) -> None:
    for mine, theirs in zip(batch.stores, other.stores, strict=True):
        assert set(mine.keys()) == set(theirs.keys()), name
        for key, value in mine.items():
            assert torch.equal(value, theirs[key]) if isinstance(value, torch.Tensor) else value == theirs[key], (name, key)


TOWARD_SEEDS = ("uniform", "all", "by relation", "weights", "times of edges", "labor, disjoint", "induced", "subgraphs")


@pytest.mark.parametrize("place", [in_memory, on_disk, on_servers], ids=lambda place: place.__name__)
def test_edges_toward_the_seeds_have_their_ends_exchanged(folders, place):
    with place(typed, folders[typed]) as graph:
        for name in TOWARD_SEEDS:
            make = LOADERS[name][1]
            others = make(typed(), same, edge_dir="out", seed=4, run="inline")
            for batch, other in zip(make(graph, same, seed=4, num_workers=2, toward_seeds=True), others, strict=True):
                for relation in other.edge_types:
                    other[relation].edge_index = other[relation].edge_index.flip(0)
                assert_equal(batch, other, name)


def test_edges_of_in_lists_lead_toward_the_seeds_as_they_are():
    make = LOADERS["uniform"][1]
    for batch, other in zip(make(typed(), same, seed=4, toward_seeds=True), make(typed(), same, seed=4), strict=True):
        assert_equal(batch, other, "uniform")


def test_edges_toward_the_seeds_in_batches_of_links():
    way = {"neg_sampling": "binary", "batch_size": 50, "seed": 3}
    turned_too = LinkNeighborLoader(typed(), [2, 1], WRITES, edge_dir="out", toward_seeds=True, **way)
    for batch, other in zip(turned_too, LinkNeighborLoader(typed(), [2, 1], WRITES, edge_dir="out", **way), strict=True):
        for relation in other.edge_types:
            other[relation].edge_index = other[relation].edge_index.flip(0)
        assert_equal(batch, other, "links")  # the ends of the seeds stay what they are


@pytest.mark.parametrize(
    "options",
    [{"pad": "bound"}, {"transform_sampler_output": lambda out: out}, {"subgraph_type": "bidirectional"}],
    ids=["pad", "transform_sampler_output", "bidirectional"],
)
def test_edges_toward_the_seeds_do_not_go_with_what_reads_their_direction(options):
    with pytest.raises(InputError, match="leave out toward_seeds"):
        NeighborLoader(plain(), [2], None, edge_dir="out", toward_seeds=True, **options)


def test_neighbours_are_those_that_a_node_has_an_edge_to():
    path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    batch = next(iter(NeighborLoader(path, [-1, -1], torch.tensor([1]), edge_dir="out")))
    assert batch.n_id.tolist() == [1, 2, 3]
    assert batch.n_id[batch.edge_index].tolist() == [[1, 2], [2, 3]]
    assert batch.e_id.tolist() == [1, 2]


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional"])
@pytest.mark.parametrize("source", [typed, plain])
def test_batches_hold_edges_of_the_graph(source, subgraph_type):
    """In the user's direction: each with its `e_id`, or with that of its flip."""
    data = source()
    nodes = ("paper", None) if source is typed else None
    for batch in NeighborLoader(data, [2, 2], nodes, batch_size=20, edge_dir="out", subgraph_type=subgraph_type):
        for relation in batch.edge_types if source is typed else [None]:
            ends = [batch] * 2 if relation is None else [batch[relation[0]], batch[relation[2]]]
            edges, stored = (batch, data) if relation is None else (batch[relation], data[relation])
            found = torch.stack([end.n_id[row] for end, row in zip(ends, edges.edge_index, strict=True)])
            if subgraph_type == "directional":
                assert torch.equal(found, stored.edge_index[:, edges.e_id])
            elif relation in (None, CITES):
                known = stored.edge_index[:, edges.e_id]
                assert bool(((found == known).all(0) | (found == known.flip(0)).all(0)).all())


def test_clusters_have_the_edges_of_the_graph():
    data = plain()
    count = 0
    for batch in ClusterLoader(data, 4, batch_size=2, edge_dir="out"):
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        count += batch.num_edges
    assert count > 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"neg_sampling": NegativeSampling("binary", 2.0), "strict_negatives": True},
        {"neg_sampling": "triplet", "strict_negatives": True, "exclude_seed_edges": True},
        {"disjoint": True, "exclude_seed_edges": True},
    ],
)
def test_links_keep_their_direction(options):
    data = typed()
    edges = set(zip(*data[WRITES].edge_index.tolist(), strict=True))
    for batch in LinkNeighborLoader(data, [2, 1], WRITES, batch_size=50, edge_dir="out", **options):
        links = batch[WRITES]
        author, paper = batch["author"].n_id, batch["paper"].n_id
        seeds = data[WRITES].edge_index[:, links.input_id]
        if "triplet" in options.values():
            ends = torch.stack([author[batch["author"].src_index], paper[batch["paper"].dst_pos_index]])
            negatives = torch.stack([ends[0], paper[batch["paper"].dst_neg_index]])
        else:
            ends = torch.stack([author[links.edge_label_index[0]], paper[links.edge_label_index[1]]])
            ends, negatives = ends[:, : len(links.input_id)], ends[:, len(links.input_id) :]
        assert torch.equal(ends, seeds)
        assert not edges & set(zip(*negatives.tolist(), strict=True))
        drawn = torch.stack([author[links.edge_index[0]], paper[links.edge_index[1]]])
        assert torch.equal(drawn, data[WRITES].edge_index[:, links.e_id])
        if options.get("exclude_seed_edges") and not options.get("disjoint"):
            assert not set(zip(*seeds.tolist(), strict=True)) & set(zip(*drawn.tolist(), strict=True))


def test_walks_and_scores_go_along_the_arrows(folders):
    path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    walks, edges = random_walk(path, [0, 2], 2, return_edge_ids=True, edge_dir="out")
    assert (walks.tolist(), edges.tolist()) == ([[0, 1, 2], [2, 3, 3]], [[0, 1], [2, -1]])
    assert ppr(path, [2], alpha=0.5, edge_dir="out")[1].tolist() == [2, 3]
    data = plain()
    biased = {"length": 6, "p": 0.2, "q": 3.0, "seed": 2}
    expected = random_walk(turned_around(data), **biased)
    assert torch.equal(random_walk(data, edge_dir="out", **biased), expected)
    with halohop.open(folders[plain]) as graph:
        assert torch.equal(random_walk(graph, **biased), expected)
    metapath = [WRITES, CITES]
    walks = random_walk(typed(), ("author", None), metapath=metapath, edge_dir="out")
    written = set(zip(*typed()[WRITES].edge_index.tolist(), strict=True))
    assert all(paper < 0 or (author, paper) in written for author, paper, _ in walks.tolist())
    with pytest.raises(InputError, match="steps go along the arrows, from 'author' to 'paper'"):
        random_walk(typed(), ("paper", None), metapath=[CITES, WRITES], edge_dir="out")


def test_what_is_asked_of_a_graph(folders):
    with halohop.open(folders[plain]) as graph:
        data, relation = plain(), ("node", "to", "node")
        assert graph.book.edge_dir == "out"
        gid, raw = graph.select()
        found = graph.edges(relation)
        of = torch.empty_like(gid)
        of[gid] = raw
        assert torch.equal(of[torch.stack([found.src_gid, found.dst_gid])], data.edge_index)
        some = graph.edges(relation, torch.tensor([7, 3]))
        assert torch.equal(of[torch.stack([some.src_gid, some.dst_gid])], data.edge_index[:, [7, 3]])
        assert torch.equal(graph.degrees(relation, gid), torch.bincount(data.edge_index[0], minlength=50)[raw])
        row, col = HalohopGraphStore(graph).get_edge_index(relation, layout="coo")
        assert sorted(zip(row.tolist(), col.tolist(), strict=True)) == sorted(zip(*data.edge_index.tolist(), strict=True))
        (answer,) = graph.find([(relation, found.src_gid[:9], found.dst_gid[:9])])
        assert bool((answer.counts > 0).all())


ASK: dict[str, Callable[..., Any]] = {
    "NeighborLoader": NeighborLoader,
    "LinkNeighborLoader": LinkNeighborLoader,
    "HalohopSampler": HalohopSampler,
    "random_walk": lambda graph, nodes, **options: random_walk(graph, nodes, 1, **options),
    "ppr": ppr,
}


@pytest.mark.parametrize("name", ASK)
def test_another_direction_than_the_graph_has_is_refused(folders, tmp_path, name):
    halohop.partition(plain(), tmp_path / "in", num_parts=1)
    with halohop.open(tmp_path / "in") as into, halohop.open(folders[plain]) as out:
        for graph, asked, has in ((into, "out", "in"), (out, "in", "out"), (halohop.graph(plain()), "out", "in")):
            message = f"edge_dir='{asked}', but this graph has the {has}-edges of its nodes; make it with edge_dir='{asked}'"
            with pytest.raises(InputError, match=message):
                ASK[name](graph, [1], edge_dir=asked)
            ASK[name](graph, [1], edge_dir=has)


def test_layer_wise_inference_and_recipes_are_refused(folders, tmp_path):
    message = "reads the in-edges of nodes, and this graph has their out-edges; divide it with edge_dir='in'"
    job = InferenceJob(parts=folders[plain], out=tmp_path / "vectors", world=halohop.World())
    with halohop.open(folders[plain]) as graph, pytest.raises(InputError, match=f"layer-wise inference {message}"):
        infer(torch.nn.Module(), graph, job)
    with pytest.raises(InputError, match=f"a recipe {message}"):
        opened(folders[plain], TrainConfig(parts=str(folders[plain]), out=str(tmp_path)), halohop.World())


@pytest.mark.parametrize(
    "make",
    [
        lambda: NeighborLoader(plain(), [1], edge_dir="both"),
        lambda: halohop.graph(plain(), edge_dir="both"),
        lambda: halohop.partition(plain(), "parts", num_parts=1, edge_dir="both"),
    ],
)
def test_what_is_no_direction_is_refused(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="edge_dir='both' is neither 'in' nor 'out'"):
        make()


def test_pyg_samplers_draw_out_neighbours():
    sampler = HalohopSampler(plain(), [-1], edge_dir="out")
    data = plain()
    for batch in NodeLoader(data, sampler, input_nodes=torch.arange(10), batch_size=5):
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert batch.num_edges == int(torch.isin(data.edge_index[0], batch.input_id).sum())


def test_folders_without_a_direction_have_in_edges(tmp_path):
    halohop.partition(plain(), tmp_path / "parts", num_parts=2, method="random")
    manifest = read_manifest(tmp_path / "parts")
    assert manifest.edge_dir == "in"
    text = encode(manifest).replace(b',\n  "edge_dir": "in"', b"")
    assert b"edge_dir" not in text
    checksum = text.split(b'"checksum": "')[1][:8]
    text = text.replace(checksum, b"00000000", 1)
    text = text.replace(b"00000000", f"{zlib.crc32(text):08x}".encode(), 1)
    assert decode(text, "manifest.json") == manifest
