"""The training loop: node classification with sampled neighbourhoods, the same for one trainer and for many.

Every trainer runs `train`. Steps are synchronous (DistributedDataParallel): the gradient of a step is that of the mean loss
over all seeds of all ranks, however unevenly they are dealt.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import halohop
from halohop.cluster.graph import Graph
from halohop.recipes.checkpoint import FORMAT, CheckpointInfo, save_checkpoint
from halohop.recipes.config import TrainConfig, to_dict
from halohop.recipes.evaluate import Score, evaluate, evaluation_fanout
from halohop.recipes.labels import count_classes, find_target, seed_labels
from halohop.recipes.models import build_model
from halohop.recipes.ranks import choose_device, max_over_ranks, share_of, shared_graph, sum_over_ranks
from halohop.recipes.spec import ModelSpec, check_raw_ids
from halohop.world import World

Event = dict[str, Any]

_SUMMED = ("seeds", "sampled_edges", "local_rows", "remote_rows")
_LONGEST = ("wait_seconds",)


def train(config: TrainConfig, *, world: World | None = None, on_event: Callable[[Event], None] = lambda _: None) -> Event:
    """Trains a model; called by every trainer of the world.

    Args:
        config: what to do.
        world: this trainer's place; None reads torchrun's environment.
        on_event: called on rank 0 with every event, as it is written to ``<out>/metrics.jsonl``.

    Returns:
        The last event, "end", on every rank: test accuracy, best epoch, totals.

    Raises:
        InputError: config and graph do not fit together.
        TransportError, ClusterError: another host or trainer is gone; names it.
    """
    world = world or World.from_env()
    device = choose_device(config.device, world)
    with (
        shared_graph(config.parts, world=world, device=device, deadline_s=config.deadline_s) as graph,
        _event_log(config.out, world, on_event) as emit,
    ):
        return _Run(config, graph, world, device, emit).go()


class _Run:
    """One trainer's part of a run."""

    def __init__(
        self, config: TrainConfig, graph: Graph, world: World, device: torch.device, emit: Callable[[Event], None]
    ) -> None:
        self.config, self.graph, self.world, self.device, self.emit = config, graph, world, device, emit
        self.target = find_target(graph.schema, config.target)
        self.splits = graph.schema.splits(self.target)
        num_classes = count_classes(graph, self.target, world, device)
        self.spec = ModelSpec.of(config, graph.schema, self.target, num_classes)
        check_raw_ids(graph, self.spec)
        torch.manual_seed(config.seed)  # the same weights on every rank
        self.model = build_model(self.spec).to(device)
        self.ddp: nn.Module = DistributedDataParallel(self.model) if world.size > 1 else self.model
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.lr, weight_decay=config.weight_decay)
        torch.manual_seed(config.seed + 1_000_003 * (world.rank + 1))  # dropout of its own on every rank
        self.eval_fanout = evaluation_fanout(config.eval_fanout, graph.schema, config.fanout)
        self.loader = self._loader("train", config.fanout, config.batch_size, shuffle=True)
        self.best = CheckpointInfo(format=FORMAT, model=self.spec, train=config, epoch=0, val_accuracy=None)
        self.best_state: dict[str, Tensor] = {}

    def go(self) -> Event:
        start = time.perf_counter()
        self._announce()
        validation = self._loader("val", self.eval_fanout, self.config.eval_batch_size) if "val" in self.splits else None
        best: Score | None = None
        epoch = stale = edges = 0
        for epoch in range(1, self.config.epochs + 1):
            event = self._epoch(epoch)
            edges += event["sampled_edges"]
            due = epoch % self.config.eval_every == 0 or epoch == self.config.epochs
            score = self._score(validation) if validation is not None and due else None
            self.emit(event | {"val_accuracy": score and score.accuracy, "val_loss": score and score.loss})
            if score is None:
                continue
            self._evaluated("val", epoch, score)
            # Where the accuracy is the same, as it often is on few nodes, the smaller loss is better.
            if best is None or (score.accuracy, -score.loss) > (best.accuracy, -best.loss):
                best, stale = score, 0
                self._keep(epoch, score.accuracy)
            else:
                stale += 1
                if stale == self.config.patience:
                    break
        if best is None:
            self._keep(epoch, None)
        return self._end(epoch, edges, start)

    def _epoch(self, epoch: int) -> Event:
        self.ddp.train()
        before, start = self.loader.statistics(), time.perf_counter()
        losses = known = 0.0
        for step, batch in enumerate(self.loader, 1):
            batch = batch if self.device.type == "cpu" else batch.to(self.device, non_blocking=True)
            loss, seeds = self._step(batch)
            losses, known = losses + loss, known + seeds
            if self.config.log_every and step % self.config.log_every == 0:
                progress = {"step": step, "steps": len(self.loader), "loss": losses / max(known, 1)}
                self.emit({"event": "step", "epoch": epoch, **progress})
        seconds = max_over_ranks(time.perf_counter() - start, self.device, self.world)
        spent = {name: value - before.get(name, 0) for name, value in self.loader.statistics().items()}
        sums = dict(zip(_SUMMED, sum_over_ranks([spent.get(name, 0) for name in _SUMMED], self.device, self.world), strict=True))
        rows = sums["local_rows"] + sums["remote_rows"]
        return {
            "event": "epoch",
            "epoch": epoch,
            "loss": losses / max(known, 1),
            "train_seconds": seconds,
            **{name: max_over_ranks(spent.get(name, 0), self.device, self.world) for name in _LONGEST},
            **{name: int(total) for name, total in sums.items()},
            "edges_per_second": sums["sampled_edges"] / seconds,
            "seeds_per_second": sums["seeds"] / seconds,
            "remote_share": sums["remote_rows"] / rows if rows else 0.0,
        }

    def _step(self, batch: Any) -> tuple[float, float]:
        """One step of all ranks; returns the sum of their losses, and how many labelled seeds they had."""
        y = seed_labels(batch, self.target)
        # A rank without seeds, or without labelled ones, goes through the same steps with a sum over nothing: its gradients
        # are zeros, and nobody waits for it.
        logits, y = self.ddp(batch)[y >= 0], y[y >= 0]
        loss = F.cross_entropy(logits, y, reduction="sum")
        total, known = sum_over_ranks([float(loss.detach()), len(y)], self.device, self.world)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss * (self.world.size / max(known, 1)))  # DDP will divide by the number of ranks
        self.optimizer.step()
        return total, known

    def _loader(self, split: str, fanout: tuple[int, ...], batch_size: int, *, shuffle: bool = False) -> halohop.NeighborLoader:
        return share_of(
            self.graph,
            (self.target, split),
            fanout,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=self.config.seed,
            workers=self.config.workers,
            world=self.world,
            device=self.device,
            deadline_s=self.config.deadline_s,
        )

    def _score(self, loader: halohop.NeighborLoader) -> Score:
        loader.set_epoch(0)  # the same draws every time, so that scores compare
        return evaluate(self.model, loader, target=self.target, device=self.device, world=self.world)

    def _keep(self, epoch: int, accuracy: float | None) -> None:
        """Remembers the model as it is now."""
        self.best = replace(self.best, epoch=epoch, val_accuracy=accuracy)
        self.best_state = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
        if self.world.rank == 0:
            save_checkpoint(Path(self.config.out) / "checkpoint", self.best, self.best_state)

    def _announce(self) -> None:
        schema = self.graph.schema
        self.emit(
            {
                "event": "start",
                "config": to_dict(self.config),
                "model": self.spec.kind,
                "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
                "target": self.target,
                "classes": self.spec.num_classes,
                "nodes": sum(spec.count for spec in schema.nodes.values()),
                "edges": sum(spec.count for spec in schema.edges.values()),
                "partitions": self.graph.book.num_parts,
                "steps": len(self.loader),
                "eval_fanout": list(self.eval_fanout),
                "ranks": self.world.size,
                "hosts": self.world.num_hosts,
                "device": str(self.device),
                "threads": torch.get_num_threads(),
            }
        )

    def _evaluated(self, split: str, epoch: int, score: Score) -> None:
        self.emit(
            {
                "event": "evaluation",
                "split": split,
                "epoch": epoch,
                "accuracy": score.accuracy,
                "loss": score.loss,
                "nodes": score.nodes,
                "seconds": score.seconds,
            }
        )

    def _end(self, epochs: int, edges: int, start: float) -> Event:
        """Tests the best model."""
        score = None
        if "test" in self.splits:
            self.model.load_state_dict(self.best_state)
            score = self._score(self._loader("test", self.eval_fanout, self.config.eval_batch_size))
            self._evaluated("test", self.best.epoch, score)
        end = {
            "event": "end",
            "test_accuracy": score and score.accuracy,
            "best_epoch": self.best.epoch,
            "best_val_accuracy": self.best.val_accuracy,
            "epochs": epochs,
            "sampled_edges": edges,
            "seconds": time.perf_counter() - start,
        }
        self.emit(end)
        return end


@contextmanager
def _event_log(out: str, world: World, on_event: Callable[[Event], None]) -> Iterator[Callable[[Event], None]]:
    """What rank 0 does with an event: a line of ``metrics.jsonl``, and the callback. Other ranks do nothing."""
    if world.rank != 0:
        yield lambda _: None
        return
    Path(out).mkdir(parents=True, exist_ok=True)
    with (Path(out) / "metrics.jsonl").open("wb") as file:

        def emit(event: Event) -> None:
            _write_line(file, event)
            on_event(event)

        yield emit


def _write_line(file: IO[bytes], event: Event) -> None:
    file.write(msgspec.json.encode(event) + b"\n")
    file.flush()
