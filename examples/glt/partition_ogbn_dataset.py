"""Divides a node-property data set of OGB by how often batches need its nodes: step 1 of GLT's distributed example.

    python partition_ogbn_dataset.py --dataset=ogbn-products --num_partitions=2
    python partition_ogbn_dataset.py --dataset=ogbn-papers100M --root_dir=../../../data/ogbn-papers100M --num_partitions=2

Reads the files that the package `ogb` downloads into ROOT_DIR (relative to this file), and writes beside them DATASET-partitions,
DATASET-label/label.pt, and DATASET-train-partitions and DATASET-test-partitions with partitionN.pt: the seeds of each node.
"""

import argparse
import ast
import tempfile
from pathlib import Path

import torch

import halohop.glt as glt
from halohop.datasets import Staging, ogb_node
from halohop.typing import EDGE, NODE


def partition_dataset(
    dataset: str, root_dir: Path, num_partitions: int, num_nbrs: list[int], chunk_size: int, cache_ratio: float
) -> None:
    partitions = root_dir / f"{dataset}-partitions"
    if partitions.exists():  # before anything is written, or read for an hour
        raise SystemExit(f"{partitions} is there already; delete it, or give another --root_dir")
    with tempfile.TemporaryDirectory(prefix="halohop-", dir=root_dir) as scratch:  # what is read is mapped there, not in memory
        print(f"-- Loading {dataset} ...")
        tables = ogb_node(root_dir, dataset, staging=Staging(folder=Path(scratch)))
        nodes, edges = tables.nodes[NODE], tables.edges[EDGE]
        edge_index = edges.src, edges.dst
        print(f"* node count: {nodes.num_nodes}")
        print(f"* edge count: {edges.num_edges}")
        seeds = {split: nodes.columns[f"{split}_mask"].nonzero().view(-1) for split in ("train", "test")}
        seeds_of = {split: ids.tensor_split(num_partitions) for split, ids in seeds.items()}

        print("-- Saving labels and seeds ...")
        save(nodes.columns["y"], root_dir / f"{dataset}-label" / "label.pt")
        for split, parts in seeds_of.items():
            for number, own in enumerate(parts):
                save(own, root_dir / f"{dataset}-{split}-partitions" / f"partition{number}.pt")

        print("-- Computing hotness ...")
        mode = "ZERO_COPY" if torch.cuda.is_available() else "CPU"
        graph = glt.data.Graph(glt.data.Topology(edge_index), mode=mode)
        sampler = glt.sampler.NeighborSampler(graph, num_nbrs, device=torch.device("cpu"))
        probs = [sampler.sample_prob(own, nodes.num_nodes) for own in seeds_of["train"]]

        print("-- Partitioning graph and features ...")
        glt.partition.FrequencyPartitioner(
            output_dir=partitions,
            num_parts=num_partitions,
            num_nodes=nodes.num_nodes,
            edge_index=edge_index,
            probs=probs,
            node_feat=nodes.columns["x"],
            chunk_size=chunk_size,
            cache_ratio=cache_ratio,
        ).partition()


def save(ids: torch.Tensor, file: Path) -> None:
    glt.utils.ensure_dir(str(file.parent))
    torch.save(ids.clone(), file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="ogbn-products", help="name of the data set")
    parser.add_argument("--root_dir", help="where OGB's files are (default: ../../../data/DATASET)")
    parser.add_argument("--num_partitions", type=int, default=2, help="how many partitions")
    parser.add_argument("--num_nbrs", type=ast.literal_eval, default="[15,10,5]", help="neighbours per hop, as in training")
    parser.add_argument("--chunk_size", type=int, default=10000, help="of GLT; changes nothing here")
    parser.add_argument("--cache_ratio", type=float, default=0.2, help="share of all nodes whose features each partition copies")
    args = parser.parse_args()
    partition_dataset(
        args.dataset,
        (Path(__file__).resolve().parent / (args.root_dir or f"../../../data/{args.dataset}")).resolve(),
        args.num_partitions,
        args.num_nbrs,
        args.chunk_size,
        args.cache_ratio,
    )
