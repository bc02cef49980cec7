"""Trainers that hold no graph: over servers, a run is the one over the partitions themselves."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halohop
from halohop.datasets import synthetic, synthetic_hetero
from halohop.datasets.sources import load_link_graph
from halohop.errors import AuthenticationError, ClusterError, InputError, PeerLostError
from halohop.net.serve import Server
from halohop.recipes.checks import servers_of
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.inference import infer
from halohop.recipes.opening import opened
from halohop.recipes.train import train
from halohop.testing.worlds import TOKEN, free_addresses
from halohop.world import World
from tests.support.deadlines import within

HALVES = ((0, 1), (2, 3))
OF_GRAPHS = {
    "node": lambda: synthetic("tiny"),
    "typed": lambda: synthetic_hetero(300),
    "link": lambda: load_link_graph("synthetic:tiny", seed=0),
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Graphs in four partitions each."""
    folder = tmp_path_factory.mktemp("graphs")
    for name, make in OF_GRAPHS.items():
        halohop.partition(make(), folder / name, num_parts=4, method="random")
    return {name: str(folder / name) for name in OF_GRAPHS}


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("secret") / "token"
    file.write_bytes(TOKEN.key)
    file.chmod(0o600)
    return str(file)


@contextmanager
def served(
    parts: str, shares: Sequence[Sequence[int]] = HALVES, *, peers: bool = True, columns: Any = None
) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        addresses = free_addresses(len(shares))
        yield [
            stack.enter_context(
                halohop.serve(
                    parts,
                    partitions=share,
                    columns=columns,
                    listen=address,
                    peers=[other for other in addresses if other != address and peers],
                    token=TOKEN,
                )
            )
            for share, address in zip(shares, addresses, strict=True)
        ]


def named(servers: list[Server]) -> str:
    return ",".join(server.address for server in servers)


def config_for(parts: str, out: Path, **values: Any) -> TrainConfig:
    defaults = {"fanout": (5, 5), "hidden": 16, "epochs": 2, "batch_size": 100, "workers": 2, "device": "cpu", "log_every": 1}
    return TrainConfig(parts=parts, out=str(out), **defaults | values)


def learned(events: list[dict[str, Any]]) -> dict[str, float]:
    """Losses and scores of every step, epoch and split."""
    figures = ("loss", "val_loss", "accuracy", "mrr", "auc", "test_accuracy", "test_mrr")
    found = {}
    for event in events:
        place = " ".join(str(event[name]) for name in ("event", "epoch", "step", "split") if name in event)
        found |= {f"{place} {name}": event[name] for name in figures if event.get(name) is not None}
    return found


def alike(figures: dict[str, float]) -> Any:
    """Equal to these, but for the last digits: torch's threads may round otherwise from run to run."""
    return pytest.approx(figures, rel=1e-5)


def run(config: TrainConfig) -> dict[str, float]:
    events: list[dict[str, Any]] = []
    train(config, world=World(), on_event=events.append)
    return learned(events)


LINKS = {"task": "link", "batch_size": 800, "eval_negatives": 5}


@pytest.mark.parametrize("sampling", ["servers", "client"])
@pytest.mark.parametrize(("graph", "options"), [("node", {}), ("typed", {}), ("link", LINKS)], ids=["node", "typed", "link"])
def test_losses_and_scores_are_those_of_the_opened_graph(
    graphs: dict[str, str], secret: str, tmp_path: Path, graph: str, options: dict[str, Any], sampling: str
) -> None:
    config = config_for(graphs[graph], tmp_path / "local", epochs=1, **options)
    expected = run(config)
    with served(graphs[graph]) as servers:
        remote = replace(config, parts=named(servers), out=str(tmp_path / "remote"), token_file=secret, sampling=sampling)
        assert run(remote) == alike(expected)
        assert (sum(server.statistics().get("batches", 0) for server in servers) > 0) == (sampling == "servers")
    assert any(name.startswith("end test") for name in expected)


def test_labels_and_splits_that_servers_were_given(graphs: dict[str, str], secret: str, tmp_path: Path) -> None:
    """The partitions hold features alone; a run is the one over partitions that hold the labels and splits, too."""
    tables = synthetic("tiny")
    nodes = tables.nodes["node"]
    given = {name: column for name, column in nodes.columns.items() if name != "x"}
    assert {"y", "train_mask", "val_mask", "test_mask"} <= given.keys()
    bare = replace(tables, nodes={"node": replace(nodes, columns={"x": nodes.columns["x"]})})
    halohop.partition(bare, tmp_path / "bare", num_parts=4, method="random")
    config = config_for(graphs["node"], tmp_path / "local")
    expected = run(config)
    with served(str(tmp_path / "bare"), columns={"node": given}) as servers:
        assert run(replace(config, parts=named(servers), out=str(tmp_path / "remote"), token_file=secret)) == alike(expected)


@pytest.mark.soak  # tests/system has two, too
def test_several_trainers(graphs: dict[str, str], secret: str, tmp_path: Path, run_trainers: Any) -> None:
    """Two trainers, as of one host or of two: where the graph is on servers, hosts have nothing to tell each other."""
    config = config_for(graphs["node"], tmp_path / "local", batch_size=50)
    expected = learned(run_trainers([config], 2))
    with served(graphs["node"]) as servers:
        remote = replace(config, parts=named(servers), out=str(tmp_path / "remote"), token_file=secret, overwrite=True)
        assert learned(run_trainers([remote], 2)) == alike(expected)
        assert learned(run_trainers([remote, remote], 1)) == alike(expected)


def test_a_run_goes_on_elsewhere(graphs: dict[str, str], secret: str, tmp_path: Path) -> None:
    """Begun on the partitions, resumed on servers, resumed on the partitions again."""
    whole = run(config_for(graphs["node"], tmp_path / "whole", epochs=3))
    config = config_for(graphs["node"], tmp_path / "run", epochs=1)
    run(config)
    with served(graphs["node"]) as servers:
        run(replace(config, parts=named(servers), token_file=secret, epochs=2, resume=True))
    assert run(replace(config, epochs=3, resume=True)) == alike(whole)


def test_inference_in_batches(graphs: dict[str, str], secret: str, tmp_path: Path) -> None:
    run(config_for(graphs["node"], tmp_path / "run"))
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "run/checkpoint"), "workers": 1, "device": "cpu"}
    given = InferConfig(parts=graphs["node"], out=str(tmp_path / "here"), fanout=(4, 4), **options)
    expected = [np.load(file) for file in infer(given, world=World())]
    with served(graphs["node"]) as servers:
        there = replace(given, parts=named(servers), out=str(tmp_path / "there"), token_file=secret)
        for file, same in zip(infer(there, world=World()), expected, strict=True):
            np.testing.assert_array_equal(np.load(file), same)


def test_what_servers_cannot_do_is_said_before_anything_starts(graphs: dict[str, str], secret: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"servers \(h:1,h:2\) do not compute layer by layer.*-1 for each.*folder"):
        InferConfig(parts="h:1,h:2", checkpoint="c", out="o")
    begun = config_for(graphs["node"], tmp_path / "run", epochs=1)
    run(begun)
    before = (tmp_path / "run/metrics.jsonl").read_bytes()
    with served(graphs["node"], peers=False) as servers:
        alone = replace(begun, parts=named(servers), token_file=secret, overwrite=True)
        with pytest.raises(InputError, match=r"server 0 at .* holds partitions \[0, 1\] of 4.*--peers.*--sampling client"):
            run(alone)
        assert (tmp_path / "run/metrics.jsonl").read_bytes() == before
        run(replace(alone, sampling="client"))


def test_servers_that_are_not_there_or_not_ours(graphs: dict[str, str], secret: str, tmp_path: Path) -> None:
    with served(graphs["node"], HALVES[:1]) as servers:
        half = config_for(named(servers), tmp_path, token_file=secret)
        seconds = within(1)
        with pytest.raises(ClusterError, match=rf"partitions \[2, 3\] were found at no server within {seconds:g} s"):
            run(replace(half, deadline_s=seconds))
        with pytest.raises(PeerLostError, match="server 1"):
            run(replace(half, parts=f"{half.parts},{free_addresses(1)[0]}", deadline_s=within(1)))
        (tmp_path / "wrong").write_text("another secret of many letters")
        (tmp_path / "wrong").chmod(0o600)
        with pytest.raises(AuthenticationError, match="another token"):
            run(replace(half, token_file=str(tmp_path / "wrong")))
        with pytest.raises(InputError, match="'nowhere' is not an address; write host:port"):
            run(replace(half, parts=f"{half.parts},nowhere"))
        with pytest.raises(InputError, match="cannot read the token file absent"):
            run(replace(half, token_file="absent"))


@pytest.mark.parametrize(
    ("parts", "servers"),
    [
        ("10.0.0.7:5510", ("10.0.0.7:5510",)),
        ("graph-0:1, tcp://graph-1:22", ("graph-0:1", "tcp://graph-1:22")),
        ("a:1,b", ("a:1", "b")),  # to be refused by name, not taken for a folder
        ("parts", ()),
        ("./a:1", ()),
        ("runs/a:1", ()),
        ("synthetic:small", ()),
        ("synthetic-hetero:tiny", ()),
        ("data/x.pt", ()),
    ],
)
def test_what_names_servers(parts: str, servers: tuple[str, ...]) -> None:
    assert servers_of(parts) == servers


def test_the_token_of_a_run_counts_for_hosts_too(graphs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALOHOP_TOKEN", raising=False)
    config = TrainConfig(parts=graphs["node"], out="o", token_file="absent")
    with pytest.raises(InputError, match="token file absent"):
        opened(config.parts, config, World())
    with pytest.raises(InputError, match="needs a token"):
        opened(config.parts, replace(config, token_file=None, encrypt=True), World())
