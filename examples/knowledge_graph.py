"""A knowledge graph: DistMult (Yang et al., 2015) learns which triples are true, against negatives that a batch shares.

What makes it good: a softmax over the true answer and the shared negatives, which counts these for all entities that were not
drawn; every relation also learned backwards; cubes as regularisation (Lacroix et al., "Canonical Tensor Decomposition for
Knowledge Base Completion", 2018); and Adagrad, which touches the rows of a batch only. Over several hosts:
knowledge_graph_embeddings.py.

python examples/knowledge_graph.py wn18rr 25      # a folder with train.txt, valid.txt and test.txt; a made-up one without it
"""

import itertools
import math
import random
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

import halohop
from halohop.recipes.decoders import DistMult
from halohop.recipes.ranking import rank_links

WIDTH, BATCH, NEGATIVES, CUBES = 200, 512, 1024, 0.05


def make_up(folder: Path) -> Path:
    """Fifty families, in which all are relatives, and each likes the next."""
    families = [range(6 * number, 6 * number + 6) for number in range(50)]
    triples = [f"{a}\trelative\t{b}\n" for family in families for a, b in itertools.permutations(family, 2)]
    triples += [f"{a}\tlikes\t{b}\n" for family in families for a, b in itertools.pairwise(family)]
    random.Random(0).shuffle(triples)
    folder.mkdir(exist_ok=True)
    for name, end in {"valid": 100, "test": 200, "train": len(triples)}.items():
        begin = {"valid": 0, "test": 100, "train": 200}[name]
        (folder / f"{name}.txt").write_text("".join(triples[begin:end]))
    return folder


def read_triples(folder: Path) -> tuple[dict[str, Tensor], int, int]:
    """Of each split the numbers of source, relation and destination, ``[3, n]``; how many entities there are, and relations."""
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    triples = {}
    for split, name in {"train": "train", "val": "valid", "test": "test"}.items():
        words = [line.split("\t") for line in (folder / f"{name}.txt").read_text().splitlines()]
        triples[split] = torch.tensor(
            [
                [
                    entities.setdefault(src, len(entities)),
                    relations.setdefault(kind, len(relations)),
                    entities.setdefault(dst, len(entities)),
                ]
                for src, kind, dst in words
            ]
        ).T.contiguous()
    return triples, len(entities), len(relations)


class Model(nn.Module):
    """A vector for each entity, in a table of the graph, and one for each relation and direction."""

    def __init__(self, graph: halohop.Graph, num_relations: int) -> None:
        super().__init__()
        begin = halohop.init.normal(0, 0.05)  # far less, and the first epochs only leave the saddle at zero
        self.entity = halohop.DistEmbedding(graph, None, WIDTH, init=begin, node_type="node")
        self.decoder = DistMult(2 * num_relations, WIDTH)
        nn.init.normal_(self.decoder.weight, std=0.05)

    def loss(self, src: Tensor, relation: Tensor, dst: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the true destinations, and the regularisation."""
        negative = torch.randint(self.entity.num_embeddings, (NEGATIVES,))
        source, true = self.entity(src), self.entity(dst)
        scores = self.decoder.tails(source, relation, self.entity(negative)) + math.log(self.entity.num_embeddings / NEGATIVES)
        scores = scores.masked_fill(negative == dst[:, None], -math.inf)
        scores = torch.cat([self.decoder(source, relation, true)[:, None], scores], dim=1)
        cubes = (source.abs() ** 3 + self.decoder.weight[relation].abs() ** 3 + true.abs() ** 3).sum(dim=1).mean()
        return F.cross_entropy(scores, torch.zeros_like(src)), CUBES * cubes


def main(folder: Path, epochs: int) -> None:
    triples, entities, relations = read_triples(folder)
    torch.manual_seed(0)
    train, kind, end = triples["train"]
    model = Model(halohop.graph(Data(edge_index=torch.stack([train, end]), num_nodes=entities)), relations)
    optimizers = [halohop.optim.SparseAdagrad([model.entity], lr=0.1), torch.optim.Adagrad(model.decoder.parameters(), lr=0.1)]
    src, dst, relation = torch.cat([train, end]), torch.cat([end, train]), torch.cat([kind, kind + relations])
    for epoch in range(epochs):
        for chosen in torch.randperm(len(src)).split(BATCH):
            loss, cubes = model.loss(src[chosen], relation[chosen], dst[chosen])
            for optimizer in optimizers:
                optimizer.zero_grad()
            (loss + cubes).backward()
            for optimizer in optimizers:
                optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
    vectors = model.entity.weight[torch.arange(entities)]
    for name in ("val", "test"):
        src, relation, dst = triples[name]
        found = rank_links(
            lambda nodes, kind, _: model.decoder.tails(vectors[nodes], kind, vectors),
            lambda nodes, kind, _: model.decoder.tails(vectors[nodes], kind + relations, vectors),
            (src, relation, dst),
            tuple(torch.cat([*triples.values()], dim=1)),
            num_nodes=entities,
        )
        print(f"{name} MRR {found.mrr:.4f}, hits@1 {found.hits[1]:.3f}, hits@10 {found.hits[10]:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else make_up(Path("families")), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
