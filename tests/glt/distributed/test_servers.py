"""Servers and their clients: batches, seeds, questions, and what is refused."""

import itertools
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling

import halohop
import halohop.glt as glt
from halohop import World
from halohop.errors import ClusterError, InputError, PeerLostError
from halohop.glt.batches import to_glt
from halohop.glt.distributed import dist_client
from halohop.testing.worlds import free_address
from tests.support import glt_ranks
from tests.support.glt_servers import dataset_of, in_server_mode, same

NUM, ITEMS = 120, 50
Remote = glt.distributed.RemoteDistSamplingWorkerOptions
DistServer = glt.distributed.DistServer


def homogeneous() -> Data:
    torch.manual_seed(0)
    return Data(edge_index=torch.randint(NUM, (2, 900)), x=torch.randn(NUM, 4), edge_attr=torch.randn(900, 2), num_nodes=NUM)


def typed() -> HeteroData:
    torch.manual_seed(0)
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(NUM, 4), torch.randn(ITEMS, 3)
    data["user", "buys", "item"].edge_index = torch.stack([torch.randint(NUM, (600,)), torch.randint(ITEMS, (600,))])
    data["user", "knows", "user"].edge_index = torch.randint(NUM, (2, 500))
    return data


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A data set divided in a direction, with labels and seeds beside it; made once each."""
    root = tmp_path_factory.mktemp("servers")

    def folder(edge_dir: str, num_parts: int, several: bool) -> Path:
        path = root / f"{edge_dir}{num_parts}{several}" / "parts"
        if not path.exists():
            halohop.partition(
                typed() if several else homogeneous(), path, num_parts=num_parts, method="random", edge_dir=edge_dir
            )
            torch.save(torch.arange(NUM) % 7, path.parent / "label.pt")
            for part in range(num_parts):
                torch.save(torch.arange(part, NUM, num_parts), path.parent / f"seeds{part}.pt")
        return path

    return folder


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    glt_ranks.use_fresh_process(monkeypatch)
    monkeypatch.setattr(dist_client, "SECONDS_TO_WAIT", 40.0)


def datasets(path: Path, edge_dir: str, several: bool) -> list[Any]:
    label = path.parent / "label.pt"
    parts = sorted(int(each.name.partition("-")[2]) for each in path.glob("part-*"))
    labels = {"user": label} if several else label
    return [partial(dataset_of, path, part, edge_dir=edge_dir, labels=labels) for part in parts]


QUICK = [(2, "in", False), (2, "out", True)]


@pytest.mark.parametrize(
    ("num_parts", "edge_dir", "several"),
    [
        pytest.param(*one, marks=[] if one in QUICK else pytest.mark.full)
        for one in itertools.product([1, 2, 4], ["in", "out"], [False, True])
    ],
)
def test_batches_are_those_of_halohops_loaders(folders, num_parts, edge_dir, several):
    """Paths per server, and each client goes through all that it is given."""
    path = folders(edge_dir, num_parts, several)
    paths = [str(path.parent / f"seeds{part}.pt") for part in range(num_parts)]
    how = {"batch_size": 16, "shuffle": True}

    def epoch(rank: int) -> list[Any]:
        loader = glt.distributed.DistNeighborLoader(
            None,
            [3, 2],
            ("user", paths) if several else paths,
            with_edge=True,
            edge_dir=edge_dir,
            collect_features=True,
            random_seed=5,
            worker_options=Remote(server_rank=list(range(num_parts)), prefetch_size=2, buffer_size="64MB"),
            **how,
        )
        return list(loader)

    made = in_server_mode(datasets(path, edge_dir, several), 2, epoch)
    seeds = torch.cat([torch.load(each, weights_only=True) for each in paths])
    labels = {"user" if several else "node": {"y": torch.arange(NUM) % 7}}
    with halohop.open(path, columns=labels) as graph:
        for rank, batches in enumerate(made):
            expected = halohop.NeighborLoader(
                graph,
                [3, 2],
                ("user", seeds) if several else seeds,
                seed=5,
                edge_dir=edge_dir,
                world=World(rank=rank, size=2),
                own_seeds=True,
                toward_seeds=True,
                transform=partial(to_glt, edge_dir=edge_dir, with_edge=True),
                **how,
            )
            assert len(batches) == len(expected) > 1
            assert all(same(batch, other) for batch, other in zip(batches, expected, strict=True))


@pytest.mark.parametrize("asks_all", [pytest.param(True, marks=pytest.mark.full), False])
def test_clients_with_one_worker_key_divide_the_seeds(folders, asks_all):
    """Each seed once an epoch, in equal numbers of steps: among all clients, or among those of a server."""
    path = folders("in", 2, False)

    def epoch(rank: int) -> tuple[int, list[int]]:
        servers = [0, 1] if asks_all else rank % 2
        files = ["seeds0.pt", "seeds1.pt"] if asks_all else f"seeds{rank % 2}.pt"
        options = Remote(server_rank=servers, worker_key="train")
        loader = glt.distributed.DistNeighborLoader(None, [2], files, 8, shuffle=True, edge_dir="in", worker_options=options)
        batches = list(loader)
        return len(batches), [int(node) for batch in batches for node in batch.batch]

    found = in_server_mode(datasets(path, "in", False), 4, epoch)
    assert len({steps for steps, _ in found}) == 1
    assert sorted(node for _, nodes in found for node in nodes) == list(range(NUM))


@pytest.mark.parametrize(
    ("clients", "key", "times"),
    [
        (1, None, 1),
        (1, "train", 1),
        pytest.param(3, None, 2, marks=pytest.mark.full),
        pytest.param(3, "train", 1, marks=pytest.mark.full),
    ],
)
def test_clients_that_name_no_server_have_the_seeds_of_all(folders, clients, key, times):
    """Without a key two clients of one server both go through its seeds, as in GLT."""
    path = folders("in", 2, False)
    parts = [torch.arange(part, NUM, 2) for part in range(2)]

    def split(part: int) -> Any:
        dataset = dataset_of(path, part)
        dataset.init_node_split((parts[part], None, None))
        return dataset

    def epoch(rank: int) -> list[int]:
        options = Remote(worker_key=key)
        loader = glt.distributed.DistNeighborLoader(None, [2], glt.Split.train, 8, edge_dir="in", worker_options=options)
        return torch.cat([batch.batch for batch in loader]).tolist()

    found = in_server_mode([partial(split, part) for part in range(2)], clients, epoch)
    assert sorted(node for nodes in found for node in nodes) == sorted(parts[0].tolist() * times + parts[1].tolist())


def test_clients_that_name_their_share_of_the_servers_have_all_its_seeds(folders):
    """As GLT's `assign_server_by_order` divides four servers among two clients."""
    path = folders("in", 4, False)

    def epoch(rank: int) -> list[int]:
        servers = [rank, rank + 2]
        options = Remote(server_rank=servers, worker_key="train")
        files = [f"seeds{server}.pt" for server in servers]
        loader = glt.distributed.DistNeighborLoader(None, [2], files, 8, edge_dir="in", worker_options=options)
        return torch.cat([batch.batch for batch in loader]).tolist()

    found = in_server_mode(datasets(path, "in", False), 2, epoch)
    assert [sorted(nodes) for nodes in found] == [[node for node in range(NUM) if node % 2 == rank] for rank in range(2)]


def test_label_files_of_one_column_are_flat(folders, tmp_path):
    path = folders("in", 1, False)
    torch.save(torch.arange(NUM)[:, None], tmp_path / "label.pt")
    assert dataset_of(path, 0, labels=tmp_path / "label.pt").node_labels.tolist() == list(range(NUM))


def test_splits_of_servers(folders):
    """Each server brings its own part of a split, and a client that names one server has that one's."""
    path = folders("in", 2, False)

    def split(part: int) -> Any:
        dataset = dataset_of(path, part, labels=path.parent / "label.pt")
        dataset.random_node_split(0.25, 0.25)
        return dataset

    made = [split(part) for part in range(2)]

    def epoch(rank: int) -> tuple[list[int], list[int]]:
        def batches(servers: Any, wanted: glt.Split) -> list[int]:
            options = Remote(server_rank=servers)
            loader = glt.distributed.DistNeighborLoader(None, [2], wanted, 8, edge_dir="in", worker_options=options)
            return torch.cat([batch.batch for batch in loader]).tolist()

        config = glt.sampler.SamplingConfig(
            *(glt.sampler.SamplingType.NODE, [2], 8, False, False, False, False, False, False, "in", None)
        )
        inputs = [glt.sampler.RemoteNodeSplitSamplerInput(glt.Split.valid, None)] * 2
        loader = glt.distributed.DistLoader(None, inputs, config, worker_options=Remote(server_rank=[0, 1]))
        assert torch.equal(torch.cat([batch.batch for batch in loader]), torch.cat([each.val_idx for each in made]))
        return batches([0, 1], glt.Split.train), batches(None, glt.Split.test)

    found = in_server_mode([lambda part=part: made[part] for part in range(2)], 2, epoch)
    for rank, (train, test) in enumerate(found):
        assert train == [*made[0].train_idx.tolist(), *made[1].train_idx.tolist()]
        assert test == made[rank].test_idx.tolist()


def test_links_and_subgraphs_from_servers(folders):
    path = folders("in", 2, False)
    edges = homogeneous().edge_index[:, :40]
    how: dict[str, Any] = {"edge_dir": "in", "with_edge": True, "collect_features": True, "random_seed": 3}

    def epochs(rank: int) -> list[Any]:
        options = Remote(server_rank=[0, 1])
        negatives = NegativeSampling("binary", 1)
        links = glt.distributed.DistLinkNeighborLoader(None, [2], 8, edges, neg_sampling=negatives, worker_options=options, **how)
        around = glt.distributed.DistSubGraphLoader(None, ["seeds0.pt", "seeds1.pt"], [2], 16, worker_options=options, **how)
        return [list(links), list(around)]

    (made,) = in_server_mode(datasets(path, "in", False), 1, epochs)
    seeds = torch.cat([torch.load(path.parent / f"seeds{part}.pt", weights_only=True) for part in range(2)])
    with halohop.open(path, columns={"node": {"y": torch.arange(NUM) % 7}}) as graph:
        made_alike = partial(to_glt, edge_dir="in", with_edge=True)
        same_as: dict[str, Any] = {"seed": 3, "world": World(), "own_seeds": True, "transform": made_alike}
        drawn: dict[str, Any] = {"neg_sampling": "binary", "strict_negatives": True, "batch_size": 8}
        links = halohop.LinkNeighborLoader(graph, [2], edges, **drawn, **same_as)
        around = halohop.SubGraphLoader(graph, [2], seeds, batch_size=16, **same_as)
        for batches, expected in zip(made, (links, around), strict=True):
            assert len(batches) == len(expected)
            finished = list(expected)
            assert all(same(batch, other) for batch, other in zip(batches, finished, strict=True)), (batches[0], finished[0])


def test_questions_to_servers(folders):
    path = folders("out", 2, False)
    data, ids = homogeneous(), torch.tensor([5, 0, 119])

    def ask(rank: int) -> None:
        ask = glt.distributed.request_server
        parts = [ask(server, DistServer.get_node_partition_id, None, torch.arange(NUM)) for server in range(2)]
        assert torch.equal(*parts)
        assert ask(1, DistServer.get_dataset_meta) == (2, 1, None, None)
        assert torch.equal(ask(0, DistServer.get_node_feature, None, ids), data.x[ids])
        assert glt.distributed.async_request_server(0, DistServer.get_node_label, None, index=ids).wait().tolist() == [5, 0, 0]
        owned = [ask(server, DistServer.get_tensor_size, None) for server in range(2)]
        assert [tuple(size) for size in owned] == [(int((parts[0] == part).sum()), 4) for part in range(2)]
        edges = torch.cat([torch.stack(ask(server, DistServer.get_edge_index, None, "coo")) for server in range(2)], dim=1)
        assert sorted(edges.T.tolist()) == sorted(data.edge_index.T.tolist())
        assert ask(0, DistServer.get_edge_size, None, "coo") == (NUM, NUM)
        assert [ask(server, torch.cuda.device_count) for server in range(2)] == [torch.cuda.device_count()] * 2
        assert ask(0, torch.cuda.is_available) == torch.cuda.is_available()

    in_server_mode(datasets(path, "out", False), 2, ask)


def test_a_server_asks_itself(folders):
    host, port = free_address().split(":")
    path = folders("in", 1, False)
    assert glt.distributed.get_server() is None
    glt.distributed.init_server(1, 0, dataset_of(path, 0), host, int(port), num_clients=1)
    try:
        server = glt.distributed.get_server()
        assert server.get_dataset_meta() == (1, 0, None, None)
        assert torch.equal(server.get_node_feature(None, torch.tensor([3])), homogeneous().x[3:4])
        context = glt.distributed.get_context()
        assert (context.is_server(), context.num_servers(), context.num_clients(), context.global_world_size) == (True, 1, 1, 2)
    finally:
        glt_ranks.leave()


def test_a_dynamic_world(folders):
    """Servers do not know how many clients come; these end, and so do servers, once every rank has been there."""
    path = folders("in", 2, False)

    def epoch(rank: int) -> int:
        options = Remote(server_rank=rank)
        loader = glt.distributed.DistNeighborLoader(None, [2], f"seeds{rank}.pt", 20, edge_dir="in", worker_options=options)
        return sum(len(batch.batch) for batch in loader)

    assert in_server_mode(datasets(path, "in", False), 2, epoch, is_dynamic=True) == [60, 60]


def test_what_clients_are_refused(folders, tmp_path):
    path = folders("in", 2, False)
    secret = tmp_path / "secret.npy"
    np.save(secret, np.arange(3))
    ask, loader = glt.distributed.request_server, glt.distributed.DistNeighborLoader

    def remote(nodes: Any, **options: Any) -> Any:
        return loader(None, [2], nodes, edge_dir="in", worker_options=Remote(**options))

    def work(rank: int) -> None:
        with pytest.raises(InputError, match=r"there is no server 2; the numbers that servers were given are \[0, 1\]"):
            ask(2, torch.cuda.device_count)
        with pytest.raises(InputError, match="servers do not know system, and run no code from the network; ask them for get_"):
            ask(0, os.system, "true")
        with pytest.raises(InputError, match=r"layout='csr': servers answer with 'coo'"):
            ask(0, DistServer.get_edge_index, None, "csr")
        with pytest.raises(InputError, match="there is no server 5"):
            remote(torch.arange(3), server_rank=5)
        with pytest.raises(InputError, match=r"there is no seed file 'none\.pt' below the folder"):
            remote("none.pt", server_rank=0)
        with pytest.raises(InputError, match="lies outside the folder that the server names"):
            remote(str(secret), server_rank=0)
        with pytest.raises(InputError, match=r"names 1 files, but server_rank=\[0, 1\]; give one path for each server"):
            remote(["seeds0.pt"], server_rank=[0, 1])
        with pytest.raises(InputError, match=r"split 'train': this server was given \[\]"):
            remote(glt.Split.train, server_rank=0)
        with pytest.raises(InputError, match=r"worker_key='train' .*or number 0 \(client_rank % num_servers\)"):
            remote("seeds1.pt", server_rank=1, worker_key="train")
        with pytest.raises(InputError, match="edge_dir='out', but this graph has the in-edges"):
            loader(None, [2], torch.arange(3), edge_dir="out", worker_options=Remote())

    in_server_mode(datasets(path, "in", False), 1, work)


def test_clients_and_servers_that_do_not_fit(folders):
    path = folders("in", 1, False)
    host, port = free_address().split(":")
    place = host, int(port)
    glt.distributed.init_server(1, 0, dataset_of(path, 0), *place, num_clients=2)
    try:
        with pytest.raises(InputError, match="num_clients=3, but server 0 waits for 2; give"):
            glt.distributed.init_client(1, 3, 0, *place)
        with pytest.raises(ClusterError, match="was started as one of 1 servers, but 2 are expected here"):
            glt.distributed.init_client(2, 2, 0, *place)
        with pytest.raises(InputError, match=r"rank=2 is outside 0\.\.1"):
            glt.distributed.init_client(1, 2, 2, *place)
        with halohop.connect([":".join(map(str, place))]) as other:
            other.join("_default_client", clients=2, rank=1)
            with pytest.raises(InputError, match="rank=1 of job '_default_client' is another client's"):
                glt.distributed.init_client(1, 2, 1, *place)
        assert glt.distributed.get_context().is_server()
    finally:
        glt_ranks.leave()


def test_before_init_and_a_master_that_is_not_reached(folders, monkeypatch):
    monkeypatch.setattr(dist_client, "SECONDS_TO_WAIT", 0.5)
    host, port = free_address().split(":")
    with pytest.raises(InputError, match=r"request_server needs servers; call init_client\(...\) before"):
        glt.distributed.request_server(0, torch.cuda.device_count)
    with pytest.raises(InputError, match=r"RemoteDistSamplingWorkerOptions needs servers; call init_client\(...\) before"):
        glt.distributed.DistNeighborLoader(None, [2], "train.pt", worker_options=Remote())
    with pytest.raises(InputError, match="lie at servers; give ids, or RemoteDistSamplingWorkerOptions"):
        glt.distributed.DistNeighborLoader(None, [2], glt.Split.train)
    with pytest.raises(InputError, match="wait_and_shutdown_server is for servers; call init_server before"):
        glt.distributed.wait_and_shutdown_server()
    with pytest.raises(PeerLostError, match=f"{host}:{port}"):
        glt.distributed.init_client(1, 1, 0, host, int(port))
    dataset = dataset_of(folders("in", 2, False), 1)
    with pytest.raises(PeerLostError, match=f"{host}:{port}"):
        glt.distributed.init_server(2, 1, dataset, host, int(port), 1, request_timeout=0.5)
    assert glt.distributed.get_context() is None
    glt.distributed.shutdown_client()
