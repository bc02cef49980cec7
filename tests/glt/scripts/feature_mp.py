"""A Feature that several processes share, as in GLT's examples."""

import argparse

import torch
import torch.multiprocessing as mp

import halohop.glt as glt


def run(rank, feature, dataset, done):
    ids = torch.arange(rank, 200, 2)
    rows = feature[ids]
    assert rows.shape == (100, 4)
    assert torch.equal(rows[:, 0], ids.float())
    assert feature.shape == torch.Size([200, 4])
    total = 0
    for batch in glt.loader.NeighborLoader(dataset, [2], ids, batch_size=50, device=torch.device("cpu")):
        assert torch.equal(batch.x[:, 0], batch.node.float())
        total += batch.batch_size
    done.put((rank, total))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root")
    parser.parse_args()
    world_size = 2
    attr = torch.arange(200.0).view(-1, 1).repeat(1, 4)
    rows = torch.cat([torch.arange(200), torch.randint(200, (300,))])
    cols = torch.cat([(torch.arange(200) + 1) % 200, torch.randint(200, (300,))])
    topo = glt.data.Topology(torch.stack([rows, cols]))
    ordered, id2index = glt.data.sort_by_in_degree(attr, 0.5, topo)
    groups = [glt.data.DeviceGroup(0, list(range(world_size)))] if torch.cuda.device_count() >= world_size else None
    feature = glt.data.Feature(
        ordered, id2index, split_ratio=0.5 if groups else 0.0, device_group_list=groups, with_gpu=bool(groups)
    )
    dataset = glt.data.Dataset(glt.data.Graph(topo, "CPU"), feature)
    done = mp.get_context("spawn").SimpleQueue()
    mp.spawn(run, args=(feature, dataset, done), nprocs=world_size, join=True)
    print(f"Done: {sorted(done.get() for _ in range(world_size))}")
