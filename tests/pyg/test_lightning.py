"""Lightning trains with halohop's sampler inside PyG's data modules, and with halohop's loaders."""

import json
import os
from itertools import chain
from types import ModuleType

import pytest
import torch
from torch_geometric.data import Data

from halohop import HalohopSampler, NeighborLoader
from halohop.testing.worlds import free_addresses
from tests.support.deadlines import within
from tests.support.forked import Forked

pytestmark = [pytest.mark.xdist_group("lightning")] + [  # one process imports Lightning and starts the two ranks
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        ".*does not have many workers",
        ".*`IterableDataset` has `__len__` defined",  # ours has, and its length is right
        ".*treespec, LeafSpec",
        ".*but no accelerator is found",
        ".*Trying to infer the `batch_size`",
        ".*have no `val_dataloader`",
    )
]


@pytest.fixture(autouse=True)
def on_a_cluster(tmp_path, monkeypatch):
    """As in a job of SLURM: Lightning complains where `srun` is installed, and takes its ranks from the job."""
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text("#!/bin/sh\nexit 1\n")
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", str(srun.parent), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_NTASKS", "2")


@pytest.fixture(scope="module")
def parts() -> ModuleType:
    pytest.importorskip("lightning.pytorch")
    from tests.pyg import lightning_parts

    return lightning_parts


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(1)
    data = Data(x=torch.randn(200, 8), y=torch.arange(200) % 3, edge_index=torch.randint(200, (2, 1500)))
    data.train_mask = torch.arange(200) < 120
    data.val_mask = data.test_mask = ~data.train_mask
    return data


def test_lightning_node_data(data, parts, capsys):
    module = parts.LightningNodeData(
        data, node_sampler=HalohopSampler(data, [5, 5]), batch_size=50, eval_loader_kwargs={"num_neighbors": [-1, -1]}
    )
    model, fit = parts.Classifier(), parts.trainer()
    fit.fit(model, datamodule=module)
    assert len(model.seen) == 6
    assert sorted(chain(*model.seen[:3])) == data.train_mask.nonzero().view(-1).tolist()
    assert "loss" in fit.callback_metrics
    fit.test(model, datamodule=module)
    assert torch.cat(fit.predict(model, datamodule=module)).tolist() == list(range(200))
    batch = next(iter(module.val_dataloader()))
    within = torch.isin(data.edge_index[1], batch.n_id[: batch.batch_size])
    assert within[batch.e_id].sum() == within.sum()  # evaluation takes all neighbours


def test_lightning_link_data(data, parts):
    edges = data.edge_index
    module = parts.LightningLinkData(
        data,
        input_train_edges=edges[:, :100],
        input_val_edges=edges[:, 100:150],
        link_sampler=HalohopSampler(data, [5, 5]),
        neg_sampling="binary",
        batch_size=50,
    )
    model = parts.Links()
    parts.trainer().fit(model, datamodule=module)
    assert sorted(chain(*model.seen[:2])) == list(range(100))


@pytest.mark.parametrize("run", [pytest.param("threads", marks=pytest.mark.full), "processes"])
def test_lightning_takes_our_loaders(data, parts, run):
    """Directly and from hooks; for predictions Lightning makes the loader of a hook anew, with the same arguments."""

    def loader(split: str, **options) -> NeighborLoader:
        return NeighborLoader(data, [5, 5], split, batch_size=50, run=run, num_workers=2, **options)

    model, fit = parts.Classifier(), parts.trainer()
    fit.fit(model, loader("train", shuffle=True), loader("val"))
    first, second = [*chain(*model.seen[:3])], [*chain(*model.seen[3:])]
    assert first != second
    assert sorted(first) == sorted(second) == list(range(120))
    assert "loss" in fit.validate(model, loader("val"), verbose=False)[0]

    class Module(parts.pl.LightningDataModule):
        def train_dataloader(self) -> NeighborLoader:
            return loader("train")

        def predict_dataloader(self) -> NeighborLoader:
            return loader("val")

    parts.trainer().fit(model, datamodule=Module())
    assert torch.cat(parts.trainer().predict(model, datamodule=Module())).tolist() == list(range(120, 200))


def test_lightning_gives_no_sampler_to_loaders_that_accept_none(data, parts):
    class Module(parts.pl.LightningDataModule):
        def predict_dataloader(self) -> NeighborLoader:
            return NeighborLoader(data, [5, 5], "val", batch_size=50, num_workers=0, locality="owner")

    assert sorted(torch.cat(parts.trainer().predict(parts.Classifier(), datamodule=Module())).tolist()) == list(range(120, 200))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, list[list[int]]]]]:
    """What two ranks have seen, see `lightning_rank`."""
    pytest.importorskip("lightning.pytorch")
    folder = tmp_path_factory.mktemp("ranks")
    port = free_addresses(1)[0].rpartition(":")[2]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NODE_RANK": "0", "WORLD_SIZE": "2"}
    started = []
    try:
        for rank in range(2):
            arguments, env = [str(folder / f"{rank}.json"), str(rank)], os.environ | shared | {"LOCAL_RANK": str(rank)}
            started.append(Forked("tests.pyg.lightning_rank", arguments, env))
        for process in started:
            assert process.wait(within(120)) == 0, process.stderr.read()
    finally:
        for process in started:
            process.kill()
            process.wait(60)
            process.close()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


SEEDS = {"first": range(41), "second": range(41), "evaluated": range(41, 61), "predicted": range(61)}


@pytest.mark.parametrize("way", ["halohop", "direct"])
def test_two_ranks_under_lightning_divide_the_seeds_as_pygs_loader_does(ranks, way):
    for of_rank in ranks:
        assert of_rank[way] == of_rank["pyg"]
        assert [len(batch) for batch in of_rank[way]["first"]] == [5, 5, 5, 5, 1]  # 41 seeds, of which one is repeated
    for stage, seeds in SEEDS.items():
        assert {*chain(*chain(*(of_rank[way][stage] for of_rank in ranks)))} == {*seeds}
    assert ranks[0][way]["first"] != ranks[0][way]["second"]


def test_lightning_does_not_divide_what_world_divides_or_what_every_rank_shall_have(ranks):
    for stage, seeds in SEEDS.items():
        assert sorted(chain(*chain(*(of_rank["world"][stage] for of_rank in ranks)))) == [*seeds]
        for of_rank in ranks:
            assert sorted(chain(*of_rank["everything"][stage])) == [*seeds]
