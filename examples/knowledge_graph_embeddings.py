"""Knowledge-graph embeddings over several hosts: vectors of entities and relations lie with the partitions, and learn there.

python examples/knowledge_graph_embeddings.py wn18rr                                          # alone, in two partitions
torchrun --nproc-per-node 2 examples/knowledge_graph_embeddings.py wn18rr --model complex     # two trainers
The folder has train.txt, valid.txt and test.txt; without one, families are made up. On several hosts each has its own partitions
in --parts, torchrun its --nnodes, and all have one HALOHOP_TOKEN. --keep FOLDER, below this folder, lets a killed run go on.
"""

import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from knowledge_graph import make_up, read_triples
from torch import Tensor
from torch_geometric.data import Data

import halohop
from halohop import optim
from halohop.collectives import max_over_ranks, process_group
from halohop.files import write_file
from halohop.recipes.ranking import rank_links
from halohop.recipes.triple_scores import TRIPLE_SCORES, TripleScore

OPTIMIZERS = {"adagrad": optim.SparseAdagrad, "rowwise-adagrad": optim.RowwiseAdagrad, "adam": optim.SparseAdam}


def loss_of(model: TripleScore, batch: Data, x: Tensor, relation: Tensor, entities: int, options: argparse.Namespace) -> Tensor:
    """Of the triples of a batch, asked for their tails, and by the reverse relation for their heads: cross-entropy of the true
    answer among shared negatives, which count for all entities that were not drawn; and cubes (Lacroix et al., 2018)."""
    known, true = torch.cat([batch.src_index, batch.dst_pos_index]), torch.cat([batch.dst_pos_index, batch.src_index])
    negative = batch.dst_neg_index.flatten()[: options.negatives]
    query, same = model.query(x[known], relation), batch.n_id[negative] == batch.n_id[true][:, None]
    scores = model.all(query, x[negative]) + math.log(entities / max(len(negative), 1))
    scores = torch.cat([model.pairs(query, x[true])[:, None], scores.masked_fill(same, -math.inf)], dim=1)
    loss = F.cross_entropy(scores, torch.zeros(len(query), dtype=torch.int64), reduction="sum")
    cubes = sum(rows.abs().pow(3).sum() for rows in (x[known], relation))
    return (loss / 2 + (0 if options.model == "rotate" else options.cubes) * cubes) / options.batch_size


def keep(graph: halohop.Graph, epochs: int, options: argparse.Namespace) -> None:
    """Saves the tables, and then says so; what was saved before is good until then. On rank 0, while the others make no step."""
    graph.tables.save(options.keep, step=epochs, keep_others=True)
    write_file(options.keep / "epochs", str(epochs).encode())
    graph.tables.forget_checkpoints(options.keep, but=epochs)


def goes_on(graph: halohop.Graph, world: halohop.World, options: argparse.Namespace) -> int:
    """How many epochs were done before, whose tables are then here."""
    file = None if options.keep is None else options.keep / "epochs"
    done = int(file.read_text()) if file is not None and file.exists() and world.rank == 0 else 0
    if done:
        graph.tables.load(options.keep, step=done)
    return int(max_over_ranks(done, torch.device("cpu"), world))


def train(graph: halohop.Graph, triples: dict[str, Tensor], world: halohop.World, options: argparse.Namespace) -> None:
    src, kind, dst = triples["train"]
    relations, entities = int(kind.max()) + 1, graph.schema.nodes["node"].count
    model = TRIPLE_SCORES[options.model](options.width)
    begin = halohop.init.normal(0, model.spread)
    around = {"rotate": halohop.init.uniform(-math.pi, math.pi)}.get(options.model, begin)  # angles
    entity = halohop.DistEmbedding(graph, entities, options.width, "entity", begin, node_type="node")
    relation = halohop.DistEmbedding(graph, 2 * relations, model.relation_width, "relation", around)
    done = goes_on(graph, world, options)
    optimizer = OPTIMIZERS[options.optimizer]([entity, relation], lr=options.lr)
    loader = halohop.LinkNeighborLoader(
        *(graph, [], torch.stack([src, dst])),  # triples without neighbours, each once in an epoch
        neg_sampling={"mode": "triplet", "amount": -(-options.negatives // options.batch_size)},
        **{"batch_size": options.batch_size, "shuffle": True, "gids": True},
    )
    for epoch in range(done, options.epochs):
        loader.set_epoch(epoch)
        for batch in halohop.ReadAhead(loader, gid={entity: lambda batch: batch.n_gid}, staleness=options.staleness):
            chosen = kind[batch.input_id]
            x, r = entity(gid=batch.n_gid), relation(torch.cat([chosen, chosen + relations]))
            loss = loss_of(model, batch, x, r, entities, options)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if world.rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
            if options.keep is not None:
                keep(graph, epoch + 1, options)
    with torch.no_grad():
        x, r = entity(torch.arange(entities)), relation(torch.arange(2 * relations))
    tails, heads = (
        lambda nodes, kind, _, back=back: model.all(model.query(x[nodes], r[kind + back]), x) for back in (0, relations)
    )
    for split in ("val", "test"):
        asked, known = tuple(triples[split][:, : options.questions]), tuple(torch.cat([*triples.values()], dim=1))
        found = rank_links(tails, heads, asked, known, num_nodes=entities, world=world)
        if world.rank == 0:
            print(f"{split} MRR {found.mrr:.4f}, hits@1 {found.hits[1]:.3f}, hits@10 {found.hits[10]:.3f}", flush=True)


def main(options: argparse.Namespace) -> None:
    world = halohop.World.detect()
    torch.set_num_threads(1)
    with process_group(world, torch.device("cpu"), 300.0):
        if world.rank == 0:
            triples, entities, _ = read_triples(options.folder or make_up(Path("families")))
            if not options.parts.exists():
                halohop.partition(Data(edge_index=triples["train"][[0, 2]], num_nodes=entities), options.parts, num_parts=2)
        max_over_ranks(0, torch.device("cpu"), world)  # the files are there
        with halohop.open(options.parts, world=world) as graph:
            train(graph, read_triples(options.folder or Path("families"))[0], world, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--model", choices=TRIPLE_SCORES, default="distmult")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adagrad")
    numbers = {"lr": 0.1, "cubes": 0.05, "width": 200, "batch-size": 256, "negatives": 1024, "epochs": 5}
    for name, default in {"parts": Path("parts"), "staleness": 0, "questions": 1_000_000, **numbers}.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    main(parser.parse_args())
