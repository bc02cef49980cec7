"""Link prediction: edges against random pairs, both ends with sampled neighbourhoods; ranks, AUC and average precision."""

import time
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import halohop
from halohop.collectives import gather_rows, sum_over_ranks
from halohop.inference import check_finite
from halohop.recipes.compiling import padding_of
from halohop.recipes.link_edges import TRAIN_MASK, find_relation, split_edges
from halohop.recipes.link_leaks import find_leaks, find_reverse
from halohop.recipes.models import part_of
from halohop.recipes.ranking import auc, average_precision
from halohop.recipes.sharing import shared
from halohop.recipes.spec import ModelSpec, columns_read
from halohop.recipes.task import Loader, Score, Setting, Task, evaluation_fanout, moved

FEW_EDGES = 1_000_000
"""Graphs of up to so many edges are evaluated with all neighbours, unless the user says otherwise, or there are times: then each
edge has a subgraph of its own."""


class LinkTask(Task):
    """One trainer's part in predicting the edges of a relation.

    It learns to tell each edge from random destinations of its source, by binary cross-entropy. An edge of val or test is ranked
    among `eval_negatives` of them (mean reciprocal rank). AUC and average precision are those of all edges against the first
    ones. What a model may not see is described in `halohop.recipes.link_edges`; a warning counts edges that it sees nevertheless
    (`halohop.recipes.link_leaks`).

    Raises:
        SchemaError, InputError: the graph has no such edges, or no splits of them; or the model does not fit it.
    """

    scored, figure = "edges", "mrr"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        config, schema = setting.config, setting.graph.schema
        self.relation = find_relation(schema, config.relation)
        self.spec = ModelSpec.of(config, schema, self.relation[2], config.hidden, self.relation)
        self._edges = split_edges(setting.graph, self.relation, config.time_attr)
        self.splits = tuple(self._edges)
        self._reverse = find_reverse(setting.graph, self.relation)
        self._leaks = find_leaks(setting.graph, self.relation, self._edges, config.time_attr)
        for leak in self._leaks if setting.world.rank == 0 else ():
            warnings.warn(leak, stacklevel=2)
        self.eval_fanout = evaluation_fanout(setting, few_edges=FEW_EDGES if config.time_attr is None else 0)

    def about(self) -> dict[str, Any]:
        counts = {name: edges.index.shape[1] for name, edges in self._edges.items()}
        return {"relation": list(self.relation), "decoder": self.spec.decoder, "splits": counts, "leaks": self._leaks}

    def loader(self, split: str) -> halohop.LinkNeighborLoader:
        config, setting, train = self.setting.config, self.setting, split == "train"
        edges, exclude = self._edges[split], config.exclude_seed_edges and train and config.time_attr is None
        negatives = {"mode": "triplet", "amount": config.negatives if train else config.eval_negatives}
        return halohop.LinkNeighborLoader(
            setting.graph,
            list(config.fanout if train else self.eval_fanout),
            (self.relation, edges.index),
            edge_label_time=edges.seen_until,
            time_attr=config.time_attr,
            temporal_strategy="uniform" if config.time_attr is None else config.temporal_strategy,
            weight_attr=TRAIN_MASK if config.time_attr is None else None,
            neg_sampling=negatives,
            strict_negatives=config.strict_negatives,
            exclude_seed_edges=exclude,
            reverse_relation=self._reverse if exclude else None,
            batch_size=config.batch_size if train else config.eval_batch_size,
            shuffle=train,
            locality=config.locality if train else "none",
            **columns_read(self.spec, setting.graph.schema),
            **shared(config, setting.world, setting.device, padding_of(setting) if train else None),
        )

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        positive, negative = model(batch)
        known = torch.ones_like(positive, dtype=torch.bool)
        if "seed_mask" in (edges := part_of(batch, self.relation)):  # of a padded batch
            known = edges.seed_mask
            never = float("-inf")  # a logit without a loss, or a gradient
            positive, negative = positive.masked_fill(~known, -never), negative.masked_fill(~known[:, None], never)
        # -log of the probability of the edges, and of that of the negatives being none
        return F.softplus(-positive).sum() + F.softplus(negative).sum(), known.sum() * (1 + negative.shape[1])

    @torch.no_grad()
    def score(self, model: nn.Module, loader: Loader) -> Score:
        start, device, world = time.perf_counter(), self.setting.device, self.setting.world
        model.eval()
        pairs, inverse_ranks = [torch.empty(0, 2, device=device)], 0.0
        for batch in loader:
            positive, negative = model(moved(batch, device))
            if not len(positive):  # the others have edges left
                continue
            ahead = (negative > positive[:, None]).sum(dim=1) + (negative == positive[:, None]).sum(dim=1) / 2
            inverse_ranks += float((1 / (1 + ahead)).sum())
            pairs.append(torch.stack([positive, negative[:, 0]], dim=1))
        (inverse_ranks,) = sum_over_ranks([inverse_ranks], device, world)
        scores = gather_rows(torch.cat(pairs), device, world)
        check_finite("the score of an edge", scores)
        label = torch.tensor([1.0, 0.0]).expand_as(scores).flatten()
        figures = {
            "mrr": inverse_ranks / len(scores),
            "auc": auc(scores.flatten(), label),
            "ap": average_precision(scores.flatten(), label),
        }
        loss = float(F.binary_cross_entropy_with_logits(scores.flatten(), label))
        return Score(figures=figures, loss=loss, count=len(scores), seconds=time.perf_counter() - start)
