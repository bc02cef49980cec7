"""Running sums of weights stored with partitions: the same batches, whoever made the sums and when; bad weights named by edge."""

import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import halohop
from halohop import Replicas, add_replicas, add_weight_sums, ops
from halohop.cluster.graph import Graph
from halohop.errors import CorruptDatasetError, InputError, SchemaError
from halohop.partitioning.building.layout import Memory
from halohop.store import weight_sums
from halohop.store.disk import map_part, read_manifest, verify_parts
from halohop.store.manifest import sums_file
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing.graphs import power_law, typed
from halohop.testing.worlds import TOKEN, free_addresses, hosts
from halohop.typing import EDGE, NODE

COUNT = 300
KINDS = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "uint8", "bool")


def weighted(kinds: Sequence[str] = KINDS) -> GraphTables:
    """Hubs, lists whose weights are all 0, and a column of weights of each dtype, called like it."""
    graph = power_law(COUNT, 12, seed=3)
    edges = graph.edges[EDGE]
    generator = torch.Generator().manual_seed(1)
    weights = torch.randint(1, 9, (edges.num_edges,), generator=generator) * (edges.dst % 7 != 0)
    columns = {kind: weights.to(getattr(torch, kind)) for kind in kinds}
    return GraphTables(nodes=graph.nodes, edges={EDGE: replace(edges, columns=columns)})


def divide(out: Path, tables: GraphTables, num_parts: int, **options: object) -> Path:
    halohop.partition(tables, out, num_parts=num_parts, method="random", seed=1, **options)
    return out


def drawn(graph: Graph, weight: str, **options: object) -> list[torch.Tensor]:
    loader = halohop.NeighborLoader(
        graph,
        [6, 4],
        "train",
        weight_attr=weight,
        batch_size=40,
        run="inline",
        seed=1,
        node_columns=[],
        edge_columns=[],
        **options,
    )
    return [part for batch in loader for part in (batch.n_id, batch.e_id)]


def assert_same(some: list[torch.Tensor], others: list[torch.Tensor]) -> None:
    assert len(some) == len(others) > 0
    assert all(map(torch.equal, some, others))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("plain")
    return {parts: divide(folder / str(parts), weighted(), parts) for parts in (1, 4)}


@pytest.mark.parametrize("num_parts", [pytest.param(1, marks=pytest.mark.full), 4])
def test_batches_are_the_same_with_sums_and_without(plain, tmp_path, num_parts):
    summed = divide(tmp_path / "summed", weighted(), num_parts, weight_sums=KINDS)
    verify_parts(summed)
    with halohop.open(plain[num_parts]) as without, halohop.open(summed) as graph:
        for kind in KINDS:
            assert_same(drawn(without, kind), drawn(graph, kind))
        assert_same(drawn(without, "float32", replace=True), drawn(graph, "int64", replace=True))


def test_sums_are_those_of_the_kernel_and_are_used(plain, tmp_path, monkeypatch):
    summed = Path(shutil.copytree(plain[4], tmp_path / "summed"))
    add_weight_sums(summed, ["float32"])
    manifest = read_manifest(summed)
    for part in range(4):
        edges = map_part(summed, manifest, part).edges[EDGE]
        assert torch.equal(edges.weight_sums["float32"], ops.sum_weights(edges.indptr, edges.columns["float32"]))
    used = []
    begins = ops.WeightSums.begins
    monkeypatch.setattr(ops.WeightSums, "begins", lambda *given: used.append(1) or begins(*given))
    for folder, count in ((plain[4], 0), (summed, 1)):
        with halohop.open(folder) as graph:
            drawn(graph, "float32")
        assert bool(used) == bool(count)


def test_all_ways_to_build_write_the_same_files(plain, tmp_path, monkeypatch):
    names = ["float32", "bool"]
    added = Path(shutil.copytree(plain[4], tmp_path / "added"))
    weightless = add_weight_sums(added, names)
    stored = {name: (added / name).read_bytes() for name in read_manifest(added).files if "weight_sums" in name}
    assert len(stored) == 8
    without_weight = (weighted().edges[EDGE].dst.unique() % 7 == 0).sum()
    assert weightless == {EDGE: dict.fromkeys(names, int(without_weight))}
    built = divide(tmp_path / "built", weighted(), 4, weight_sums=names)
    in_slices = tmp_path / "slices"
    _in_slices(built, in_slices, names)
    monkeypatch.setattr(weight_sums, "_AT_ONCE", 50)
    monkeypatch.setattr("halohop.partitioning.building.dataset.is_small", lambda *_: False)
    monkeypatch.setattr(Memory, "fits", lambda *_: False)
    out_of_core = divide(tmp_path / "out-of-core", weighted(), 4, weight_sums=names)
    shared = divide(tmp_path / "shared", weighted(), 4, weight_sums=names, worker=True)
    for folder in (built, out_of_core, shared, in_slices):
        manifest = read_manifest(folder)
        assert {name: (folder / name).read_bytes() for name in manifest.files if "weight_sums" in name} == stored
        assert manifest.weight_sums == read_manifest(added).weight_sums
        assert manifest.stamps == read_manifest(plain[4]).stamps
        verify_parts(folder)


def _in_slices(built: Path, out: Path, names: Sequence[str]) -> None:
    """The same division, of slices."""
    table, edges = weighted().nodes[NODE], weighted().edges[EDGE]
    with halohop.open(built) as graph:
        owner = graph.owners(torch.arange(COUNT))
    ids, slices = torch.arange(edges.num_edges), out.with_name("slices-of-all")
    with halohop.slices.SliceWriter(slices, writer=0, num_parts=4, owner={NODE: owner}, relations=[EDGE]) as writer:
        writer.add_nodes(NODE, torch.arange(COUNT), table.columns)
        writer.add_edges(EDGE, torch.stack([edges.src, edges.dst]), ids, edges.columns)
    halohop.slices.join_slices(slices, out, num_writers=1, owner={NODE: owner}, weight_sums=names)


def test_a_typed_graph_over_several_hosts(tmp_path):
    buys, likes = ("user", "buys", "item"), ("item", "bought_by", "user")
    graph = typed({"user": 60, "item": 40}, {buys: 500, likes: 400})
    graph.edges[buys].columns["rating"] = torch.rand(500)
    plain = divide(tmp_path / "plain", graph, 2)
    summed = Path(shutil.copytree(plain, tmp_path / "summed"))
    assert [*add_weight_sums(summed, ["rating"])] == [buys]
    made = []
    for folder in (plain, summed):
        with hosts(folder, [[0], [1]], cache=None) as graphs:
            loader = halohop.NeighborLoader(graphs[0], [4, 4], "user", weight_attr="rating", batch_size=20, run="inline")
            made.append([batch["item"].n_id for batch in loader])
    assert_same(*made)


def test_fetched_from_a_url_and_served(plain, tmp_path):
    """Half of the partitions are fetched; clients of their servers get the same batches."""
    summed = Path(shutil.copytree(plain[4], tmp_path / "summed"))
    add_weight_sums(summed, ["float32"])
    halohop.upload(summed, f"file://{tmp_path}/there")
    here = halohop.fetch(f"file://{tmp_path}/there", tmp_path / "here", partitions=[0, 1])
    assert len(list(here.rglob("weight_sums/*"))) == 2
    addresses = free_addresses(2)
    with halohop.open(plain[4]) as whole, ExitStack() as stack:
        for number, (address, peer) in enumerate(zip(addresses, reversed(addresses), strict=True)):
            parts = [2 * number, 2 * number + 1]
            folder = summed if number else here
            stack.enter_context(halohop.serve(folder, partitions=parts, listen=address, peers=[peer], token=TOKEN))
        graph = stack.enter_context(halohop.connect(addresses, token=TOKEN))
        assert_same(drawn(whole, "float32"), drawn(graph, "float32"))


def test_copies_of_lists_have_sums_whenever_they_were_made(plain, tmp_path):
    wanted = Replicas(fanouts=[6, 4], batch_size=40, ratio=0.5, lists=True)
    after, before = (Path(shutil.copytree(plain[4], tmp_path / name)) for name in ("after", "before"))
    add_replicas(after, wanted)
    assert add_weight_sums(after, ["float32"]) == add_weight_sums(before, ["float32"])
    add_replicas(before, wanted)
    one, other = read_manifest(after), read_manifest(before)
    sums = [name for name in one.files if "weight_sums" in name]
    assert len(sums) == 8
    assert [(after / name).read_bytes() for name in sums] == [(before / name).read_bytes() for name in sums]
    assert {name: one.files[name] for name in sums} == {
        name: record for name, record in other.files.items() if "weight_sums" in name
    }
    with halohop.open(plain[4]) as whole, hosts(after, [[0], [1], [2], [3]]) as graphs:
        assert_same(drawn(whole, "float32"), drawn(graphs[0], "float32"))
        assert graphs[0].statistics()["replica_rows"] > 0
    add_weight_sums(after, None)
    assert not any("weight_sums" in name for name in read_manifest(after).files)
    assert not list(after.rglob("weight_sums"))
    verify_parts(after)


def test_the_same_call_again_changes_nothing_and_more_columns_are_added(plain, tmp_path):
    folder = Path(shutil.copytree(plain[4], tmp_path / "parts"))
    made = add_weight_sums(folder, ["float32"])
    before = (folder / "manifest.json").read_bytes()
    assert add_weight_sums(folder, ["float32"]) == made
    assert (folder / "manifest.json").read_bytes() == before
    assert {*add_weight_sums(folder, ["bool"])[EDGE]} == {"float32", "bool"}
    verify_parts(folder)


def test_a_killed_call_changes_nothing_and_goes_on(plain, tmp_path):
    """Killed when half of the files are there; the next call reads those and writes the others, and readers go on."""
    folder = Path(shutil.copytree(plain[4], tmp_path / "parts"))
    before = (folder / "manifest.json").read_bytes()
    with halohop.open(folder) as reader:
        expected = drawn(reader, "float32")
        child = os.fork()
        if child == 0:
            write, written = weight_sums.stream_pieces, []

            def third_is_the_last(stream, *given):
                written.append(1)
                if len(written) == 3:
                    stream.write(b"half")
                    stream.flush()
                    os.kill(os.getpid(), signal.SIGKILL)
                return write(stream, *given)

            weight_sums.stream_pieces = third_is_the_last
            add_weight_sums(folder, ["float32"])
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert (folder / "manifest.json").read_bytes() == before
        verify_parts(folder)
        first = folder / sums_file(0, EDGE, "float32")
        kept = first.stat().st_mtime_ns
        add_weight_sums(folder, ["float32"])
        assert first.stat().st_mtime_ns == kept
        assert_same(drawn(reader, "float32"), expected)
    verify_parts(folder)
    assert len(list(folder.rglob("weight_sums/*"))) == 4
    with halohop.open(folder) as graph:
        assert_same(drawn(graph, "float32"), expected)


def test_a_damaged_file_is_named(plain, tmp_path):
    folder = Path(shutil.copytree(plain[4], tmp_path / "parts"))
    add_weight_sums(folder, ["float32"])
    file = folder / sums_file(2, EDGE, "float32")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptDatasetError, match=r"weight_sums/float32\.npy has checksum"):
        verify_parts(folder)
    file.write_bytes(whole[:-8])
    with pytest.raises(CorruptDatasetError, match=r"weight_sums/float32\.npy has .* bytes"):
        halohop.open(folder)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_an_impossible_weight_is_named_by_its_edge_and_nothing_is_written(tmp_path, bad):
    tables = weighted(["float32"])
    edge = tables.edges[EDGE].num_edges - 3
    tables.edges[EDGE].columns["float32"][edge] = bad
    message = rf"edge {edge} of .* has the weight {bad:g} in 'float32'; a weight is a finite number, 0 or more"
    with pytest.raises(InputError, match=message):
        divide(tmp_path / "parts", tables, 4, weight_sums=["float32"])
    assert list(tmp_path.iterdir()) == []
    folder = divide(tmp_path / "parts", tables, 4)
    before = {file for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(InputError, match=message):
        add_weight_sums(folder, ["float32"])
    manifest = read_manifest(folder)
    assert manifest.weight_sums == {EDGE: {}}
    assert {file for file in folder.rglob("*") if file.is_file() and file.parent.name != "weight_sums"} == before


def test_an_edge_in_the_order_of_its_id_is_named_in_each_partition(tmp_path):
    """Where ids of edges are their gids, none are stored."""
    ring = torch.arange(40)
    edges = EdgeTable(src=ring, dst=ring, columns={"weight": torch.where(ring == 33, -2.0, 1.0)})
    graph = GraphTables(nodes={NODE: NodeTable(num_nodes=40)}, edges={EDGE: edges})
    halohop.partition(graph, tmp_path / "parts", num_parts=4, method="range")
    with pytest.raises(InputError, match=r"edge 33 of .* has the weight -2 in 'weight'"):
        add_weight_sums(tmp_path / "parts", ["weight"])


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("float32", InputError, "is a text; give a list"),
        (["age"], SchemaError, "no relation has a column 'age' to sum weights of"),
        (["vector"], InputError, r"'vector' of .* is float32 \[2\]; a weight is one number per edge"),
        (["complex"], InputError, "a weight is one number per edge"),
    ],
)
def test_what_is_no_weight_is_refused_before_anything_is_done(tmp_path, names, error, message):
    tables = weighted(["float32"])
    count = tables.edges[EDGE].num_edges
    tables.edges[EDGE].columns.update(vector=torch.zeros(count, 2), complex=torch.zeros(count, dtype=torch.complex64))
    with pytest.raises(error, match=message):
        divide(tmp_path / "parts", tables, 2, weight_sums=names)
    assert list(tmp_path.iterdir()) == []
    folder = divide(tmp_path / "parts", tables, 2)
    with pytest.raises(error, match=message):
        add_weight_sums(folder, names)
    shutil.rmtree(folder / "part-0001")
    with pytest.raises(InputError, match=r"partitions \[1\] are not in"):
        add_weight_sums(folder, ["float32"])
