"""Layer by layer is the same as all at once: for every model and division, in one process and in several, stopped and not."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor

import halohop
from halohop import NeighborLoader
from halohop.cluster.graph import in_memory
from halohop.errors import InputError
from halohop.inference import Neighbours, stages
from halohop.recipes.build import build_model
from halohop.recipes.checkpoint import FORMAT, CheckpointInfo, load_checkpoint, save_checkpoint
from halohop.recipes.config import InferConfig, TrainConfig, to_dict
from halohop.recipes.inference import infer
from halohop.recipes.layered_models import PlainLayers
from halohop.recipes.spec import TYPED, ModelSpec
from halohop.store.disk import read_manifest
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.world import World
from tests.support.learned import random_vectors

from .conftest import host_folders

FILES = ("raw_ids", "predictions", "confidence", "embeddings")
KINDS = ["sage", "gcn", "gat", "sage without features", "rgcn", "hgt"]
SMALL: dict[str, Any] = {"batch_size": 7, "batch_edges": 20, "embeddings": True, "device": "cpu", "deadline_s": 60.0}


def edges(num_src: int, num_dst: int, count: int, seed: int) -> EdgeTable:
    """Random edges with copies; the first node has a tenth of all nodes' in-edges and a loop, the last three have none."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(num_src, (count,), generator=generator)
    dst = torch.randint(num_dst - 3, (count,), generator=generator)
    dst[: count // 4], src[0] = 0, 0
    return EdgeTable(src=src, dst=dst)


def plain_tables(*, features: bool = True, num_nodes: int = 90) -> GraphTables:
    """One relation; float16 features, and raw ids with gaps, in another order than rows."""
    x = torch.randn(num_nodes, 6, generator=torch.Generator().manual_seed(3)).half()
    raw = torch.arange(num_nodes).flip(0) * 3 + 5
    nodes = NodeTable(num_nodes=num_nodes, columns={"x": x} if features else {}, raw_id=raw)
    return GraphTables(nodes={"node": nodes}, edges={("node", "to", "node"): edges(num_nodes, num_nodes, 5 * num_nodes, 1)})


def typed_tables() -> GraphTables:
    """Tags have no in-edges, users no features; a relation from a type to itself, and one without edges."""
    generator = torch.Generator().manual_seed(4)
    counts = {"user": 40, "item": 60, "tag": 9}
    widths = {"item": 5, "tag": 3}
    nodes = {
        name: NodeTable(
            num_nodes=count,
            columns={"x": torch.randn(count, widths[name], generator=generator).half()} if name in widths else {},
        )
        for name, count in counts.items()
    }
    ends = {("user", "buys", "item"): 200, ("item", "of", "user"): 150, ("item", "like", "item"): 120, ("tag", "on", "item"): 80}
    relations = {
        relation: edges(counts[relation[0]], counts[relation[2]], count, seed)
        for seed, (relation, count) in enumerate(ends.items())
    }
    nothing = torch.empty(0, dtype=torch.int64)
    return GraphTables(nodes=nodes, edges=relations | {("user", "knows", "user"): EdgeTable(src=nothing, dst=nothing)})


def tables_for(kind: str) -> GraphTables:
    return typed_tables() if kind in TYPED else plain_tables(features="without" not in kind)


def division(tables: GraphTables, num_parts: int) -> dict[str, Tensor]:
    """Random, but of three partitions the middle one is empty."""
    generator = torch.Generator().manual_seed(7)
    own = torch.tensor([0, 2] if num_parts == 3 else range(num_parts))
    return {
        name: own[torch.randint(len(own), (table.num_nodes,), generator=generator)].int() for name, table in tables.nodes.items()
    }


def prepare(folder: Path, kind: str, num_parts: int, *, seed: int = 1) -> tuple[str, str]:
    """A partitioned graph and a checkpoint of a model with random weights."""
    tables = tables_for(kind)
    parts, checkpoint = folder / f"parts-{num_parts}", folder / f"checkpoint-{seed}"
    if not parts.exists():
        halohop.partition(tables, parts, num_parts=num_parts, method=division(tables, num_parts))
    config = TrainConfig(parts="p", out="o", model=kind.split()[0], fanout=(-1, -1, -1), hidden=8, bases=3, heads=2)  # type: ignore[arg-type]
    spec = ModelSpec.of(config, read_manifest(parts).schema, "item" if kind in TYPED else "node", 5)
    torch.manual_seed(seed)
    raw = {
        name: torch.arange(table.num_nodes) if table.raw_id is None else table.raw_id.sort()[0]
        for name, table in tables.nodes.items()
    }
    state = build_model(spec).state_dict()
    vectors = random_vectors(checkpoint, spec, raw)
    info = CheckpointInfo(format=FORMAT, model=spec, train=config, epoch=0, val_score=None, vectors=vectors)
    save_checkpoint(checkpoint, info, state)
    return str(parts), str(checkpoint)


@torch.no_grad()
def at_once(kind: str, checkpoint: str) -> dict[str, np.ndarray]:
    """What the model says when it is given the whole graph as one batch."""
    graph = in_memory(tables_for(kind))
    model, info = load_checkpoint(checkpoint, graph.schema)
    loader = NeighborLoader(graph, [-1] * info.model.layers, (info.model.target, None), batch_size=10_000, num_workers=0)
    (batch,) = loader
    store = batch[info.model.target] if kind in TYPED else batch
    hidden = model.eval().encode(batch)
    confidence, classes = model.head(hidden).softmax(dim=1).max(dim=1)
    raw, order = store.n_id[: store.batch_size].sort()
    found = (raw, classes[order], confidence[order], hidden[order])
    return dict(zip(FILES, (values.numpy() for values in found), strict=True))


def load(out: Path, names: Iterable[str] = FILES) -> dict[str, np.ndarray]:
    return {name: np.load(out / f"{name}.npy", allow_pickle=False) for name in names}


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found["raw_ids"].tolist() == expected["raw_ids"].tolist()
    np.testing.assert_allclose(found["embeddings"], expected["embeddings"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["confidence"], expected["confidence"], rtol=1e-4)
    assert (found["predictions"] == expected["predictions"]).mean() > 0.95  # ties aside
    assert expected["embeddings"].std() > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_layer_by_layer_is_all_at_once(kind: str, tmp_path: Path) -> None:
    """Batches of 7 nodes and 20 edges: hubs come in pieces, so any fold that forgets something shows."""
    for num_parts in (1, 3):
        parts, checkpoint = prepare(tmp_path, kind, num_parts)
        out = tmp_path / f"out-{num_parts}"
        infer(InferConfig(parts=parts, checkpoint=checkpoint, out=str(out), **SMALL), world=World())
        same(load(out), at_once(kind, checkpoint))
        assert sorted(path.name for path in out.iterdir()) == sorted(f"{name}.npy" for name in FILES)


@pytest.mark.full
@pytest.mark.parametrize("kind", [pytest.param("gat", marks=pytest.mark.soak), "rgcn"])
def test_hosts_that_share_no_folder_compute_each_their_partitions(
    kind: str, tmp_path: Path, start_trainers: Callable[..., Any]
) -> None:
    """Two hosts with two trainers each; a host finds neither the partitions nor the unfinished rows of the other one."""
    parts, checkpoint = prepare(tmp_path, kind, 3)
    folders = host_folders(parts, tmp_path / "hosts", 2)
    configs = [
        InferConfig(parts=folder, checkpoint=checkpoint, out=str(tmp_path / f"out-{host}"), **SMALL)
        for host, folder in enumerate(folders)
    ]
    with start_trainers(configs, 2, "halohop.recipes.inference") as ranks:
        assert [rank.wait() for rank in ranks] == [0] * 4, "\n".join(rank.error for rank in ranks)
    same(load(tmp_path / "out-0"), at_once(kind, checkpoint))
    assert list((tmp_path / "out-1").iterdir()) == []


def test_both_hosts_may_hold_everything(tmp_path: Path, start_trainers: Callable[..., Any]) -> None:
    """Copies on both hosts: each partition is computed once, and what a host has not computed is asked of the other."""
    parts, checkpoint = prepare(tmp_path, "sage", 2)
    configs = [InferConfig(parts=parts, checkpoint=checkpoint, out=str(tmp_path / f"out-{host}"), **SMALL) for host in (0, 1)]
    with start_trainers(configs, 1, "halohop.recipes.inference") as ranks:
        assert [rank.wait() for rank in ranks] == [0] * 2, "\n".join(rank.error for rank in ranks)
    same(load(tmp_path / "out-0"), at_once("sage", checkpoint))


def test_no_piece_has_more_edges_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub with 3,000 in-edges, where 64 fit."""
    sizes: list[int] = []
    nodes: list[int] = []

    def rows(self: PlainLayers, stage: int, node_type: str, x: Tensor, neighbours: Iterable[Neighbours]) -> Tensor:
        def watched() -> Iterable[Neighbours]:
            for piece in neighbours:
                sizes.append(len(piece.src))
                assert len(piece.x) <= len(x) + 64
                yield piece

        nodes.append(len(x))
        return original(self, stage, node_type, x, watched())

    original = PlainLayers.rows
    monkeypatch.setattr(PlainLayers, "rows", rows)
    src = torch.arange(1, 3001)
    star = GraphTables(
        nodes={"node": NodeTable(num_nodes=3001, columns={"x": torch.randn(3001, 6).half()})},
        edges={("node", "to", "node"): EdgeTable(src=src, dst=torch.zeros_like(src))},
    )
    halohop.partition(star, tmp_path / "parts-1", num_parts=1, method="random")
    parts, checkpoint = prepare(tmp_path, "sage", 1)
    infer(InferConfig(parts=parts, checkpoint=checkpoint, out=str(tmp_path / "out"), batch_edges=64, device="cpu"), world=World())
    assert max(sizes) == 64
    assert sum(sizes) == 3 * 3000
    assert max(nodes) == 1024


KILLED = """
import os, signal, sys
from halohop.recipes import inference
left = int(os.environ["KILLED_AT"])
sync = os.fsync

def fsync(descriptor):
    global left
    left -= 1
    if left == 0 and os.environ.get("RANK") in (None, "1"):
        os.kill(os.getpid(), signal.SIGKILL)
    sync(descriptor)

os.fsync = fsync
sys.exit(inference.main(sys.argv[1:]))
"""


@pytest.mark.soak
def test_killed_again_and_again_the_result_is_the_same_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dies at its 21st fsync, then at its 22nd, ...: between rows and journal, between files, wherever it happens to be."""
    parts, checkpoint = prepare(tmp_path, "gat", 2)
    options = SMALL | {"batch_size": 1}
    config = InferConfig(parts=parts, checkpoint=checkpoint, out=str(tmp_path / "killed"), **options)
    file = tmp_path / "config.json"
    file.write_bytes(msgspec.json.encode(to_dict(config)))
    codes: list[int] = []
    while not codes or codes[-1] == -signal.SIGKILL:
        monkeypatch.setenv("KILLED_AT", str(21 + len(codes)))
        done = subprocess.run([sys.executable, "-c", KILLED, str(file)], capture_output=True, timeout=60, check=False)
        codes.append(done.returncode)
        assert len(codes) < 20, "it does not get on"
    assert codes[-1] == 0, done.stderr.decode()
    assert len(codes) > 3
    infer(replace(config, out=str(tmp_path / "whole")), world=World())
    for name, array in load(tmp_path / "whole").items():
        assert np.array_equal(np.load(tmp_path / "killed" / f"{name}.npy"), array), name


@pytest.mark.full
def test_a_host_that_is_killed_is_named_and_the_next_run_goes_on(
    tmp_path: Path, start_trainers: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second host dies in its second layer, the first one keeps what it has; then both go on, folders apart."""
    parts, checkpoint = prepare(tmp_path, "sage", 2)
    options = SMALL | {"batch_size": 1, "deadline_s": 20.0}
    configs = [
        InferConfig(parts=folder, checkpoint=checkpoint, out=str(tmp_path / f"out-{host}"), **options)
        for host, folder in enumerate(host_folders(parts, tmp_path / "hosts", 2))
    ]
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "killed_rank.py").write_text(KILLED)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'modules'}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("KILLED_AT", "28")
    with start_trainers(configs, 1, "killed_rank") as ranks:
        assert [rank.wait() for rank in ranks] == [1, -signal.SIGKILL]
        assert "PeerLostError" in ranks[0].error or "rank 0 waited for the other trainers in vain" in ranks[0].error
        assert "host 1" in ranks[0].error
    assert (tmp_path / "out-0/unfinished/stage-00/manifest.json").is_file()
    with start_trainers(configs, 1, "halohop.recipes.inference") as ranks:
        assert [rank.wait() for rank in ranks] == [0, 0], "\n".join(rank.error for rank in ranks)
        assert "layer 1 of 3" not in "".join(ranks[0].lines["out"])
    same(load(tmp_path / "out-0"), at_once("sage", checkpoint))


def stop_after(chunks: int, config: InferConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves an unfinished run behind."""
    keep, left = stages.Journal.keep, iter(range(chunks))

    def failing(*arguments: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        keep(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(stages.Journal, "keep", failing)
        with pytest.raises(KeyboardInterrupt):
            infer(config, world=World())


def test_a_run_goes_on_where_it_stopped_and_only_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, checkpoint = prepare(tmp_path, "gcn", 2)
    _, other = prepare(tmp_path, "gcn", 2, seed=2)
    more, _ = prepare(tmp_path, "gcn", 3)
    options: dict[str, Any] = {"out": str(tmp_path / "out"), **SMALL | {"batch_size": 1}}
    config = InferConfig(parts=parts, checkpoint=checkpoint, **options)
    stop_after(4, config, monkeypatch)
    with pytest.raises(InputError, match=r"unfinished holds an unfinished run with another model; delete"):
        infer(InferConfig(parts=parts, checkpoint=other, **options), world=World())
    with pytest.raises(InputError, match="another graph"):
        infer(InferConfig(parts=more, checkpoint=checkpoint, **options), world=World())
    with pytest.raises(InputError, match="another batch_size, results"):
        infer(replace(config, batch_size=2, embeddings=False), world=World())
    (journal,) = (tmp_path / "out").glob("unfinished/*.done/*")
    chunks = [msgspec.json.decode(line, type=stages.Chunk) for line in journal.read_bytes().split()]
    calls: list[tuple[str, int, int]] = []
    infer(config, world=World(), on_progress=lambda *call: calls.append(call))
    assert len(chunks) == 4
    left = 90 - sum(chunk.end - chunk.begin for chunk in chunks)
    assert next(total for stage, _, total in calls if stage == "layer 1 of 3") == left
    same(load(tmp_path / "out"), at_once("gcn", checkpoint))
    infer(
        InferConfig(parts=parts, checkpoint=other, overwrite=True, **options), world=World()
    )  # nothing is left of the other run
    same(load(tmp_path / "out"), at_once("gcn", other))
