"""The loop that every training recipe goes through: steps, validation, early stopping, the best model, test, and events.

Steps are synchronous (DistributedDataParallel): the gradient of a step is that of the mean loss over all examples of all ranks,
however unevenly they are dealt.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from halohop.loading.loader import BatchLoader
from halohop.recipes.build import build_model
from halohop.recipes.checkpoint import FORMAT, CheckpointInfo, save_checkpoint
from halohop.recipes.config import to_dict
from halohop.recipes.ranks import max_over_ranks, sum_over_ranks
from halohop.recipes.spec import check_raw_ids
from halohop.recipes.task import Score, Setting, Task, moved
from halohop.world import World

Event = dict[str, Any]

_SUMMED = ("seeds", "sampled_edges", "local_rows", "remote_rows")
_LONGEST = ("wait_seconds",)


class Run:
    """One trainer's part of a run.

    Args:
        task: what is learned.
        setting: where.
        emit: is told every event; on other ranks than 0 it does nothing.
    """

    def __init__(self, task: Task, setting: Setting, emit: Callable[[Event], None]) -> None:
        self.task, self.emit = task, emit
        self.config, self.graph, self.world, self.device = setting.config, setting.graph, setting.world, setting.device
        check_raw_ids(self.graph, task.spec)
        torch.manual_seed(self.config.seed)  # the same weights on every rank
        self.model = build_model(task.spec).to(self.device)
        self.ddp: nn.Module = DistributedDataParallel(self.model) if self.world.size > 1 else self.model
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.config.lr, weight_decay=self.config.weight_decay)
        torch.manual_seed(self.config.seed + 1_000_003 * (self.world.rank + 1))  # dropout of its own on every rank
        self.loader = task.loader("train")
        self.best = CheckpointInfo(format=FORMAT, model=task.spec, train=self.config, epoch=0, val_score=None)
        self.best_state: dict[str, Tensor] = {}

    def go(self) -> Event:
        """Trains, and tests the best model; returns the last event."""
        start = time.perf_counter()
        self._announce()
        validation = self.task.loader("val") if "val" in self.task.splits else None
        best: Score | None = None
        epoch = stale = edges = 0
        for epoch in range(1, self.config.epochs + 1):
            event = self._epoch(epoch)
            edges += event["sampled_edges"]
            due = epoch % self.config.eval_every == 0 or epoch == self.config.epochs
            score = self._score(validation) if validation is not None and due else None
            figures = {f"val_{name}": figure for name, figure in score.figures.items()} if score else {}
            self.emit(event | {f"val_{self.task.figure}": None} | figures | {"val_loss": score and score.loss})
            if score is None:
                continue
            self._evaluated("val", epoch, score)
            if score.beats(best):
                best, stale = score, 0
                self._keep(epoch, score.main)
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
            loss, count = self._step(moved(batch, self.device))
            losses, known = losses + loss, known + count
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
        """One step of all ranks; returns the sum of their losses, and of how many examples.

        A rank without examples goes through the same steps with a sum over nothing: nobody waits for it.
        """
        loss, count = self.task.loss(self.ddp, batch)
        total, known = sum_over_ranks([float(loss.detach()), count], self.device, self.world)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss * (self.world.size / max(known, 1)))  # DDP will divide by the number of ranks
        self.optimizer.step()
        return total, known

    def _score(self, loader: BatchLoader) -> Score:
        loader.set_epoch(0)  # the same draws every time, so that scores compare
        return self.task.score(self.model, loader)

    def _keep(self, epoch: int, score: float | None) -> None:
        """Remembers the model as it is now."""
        self.best = replace(self.best, epoch=epoch, val_score=score)
        self.best_state = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
        if self.world.rank == 0:
            save_checkpoint(Path(self.config.out) / "checkpoint", self.best, self.best_state)

    def _announce(self) -> None:
        schema = self.graph.schema
        self.emit(
            {
                "event": "start",
                "config": to_dict(self.config),
                "task": self.config.task,
                "figure": self.task.figure,
                "model": self.task.spec.kind,
                "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
                **self.task.about(),
                "nodes": sum(spec.count for spec in schema.nodes.values()),
                "edges": sum(spec.count for spec in schema.edges.values()),
                "partitions": self.graph.book.num_parts,
                "steps": len(self.loader),
                "eval_fanout": list(self.task.eval_fanout),
                "ranks": self.world.size,
                "hosts": self.world.num_hosts,
                "device": str(self.device),
                "threads": torch.get_num_threads(),
            }
        )

    def _evaluated(self, split: str, epoch: int, score: Score) -> None:
        counted = {self.task.scored: score.count, "seconds": score.seconds}
        self.emit({"event": "evaluation", "split": split, "epoch": epoch, **score.figures, "loss": score.loss, **counted})

    def _end(self, epochs: int, edges: int, start: float) -> Event:
        """Tests the best model."""
        figures: dict[str, float | None] = {f"test_{self.task.figure}": None}
        if "test" in self.task.splits:
            self.model.load_state_dict(self.best_state)
            score = self._score(self.task.loader("test"))
            self._evaluated("test", self.best.epoch, score)
            figures = {f"test_{name}": figure for name, figure in score.figures.items()}
        end = {
            "event": "end",
            **figures,
            "best_epoch": self.best.epoch,
            f"best_val_{self.task.figure}": self.best.val_score,
            "epochs": epochs,
            "sampled_edges": edges,
            "seconds": time.perf_counter() - start,
        }
        self.emit(end)
        return end


@contextmanager
def event_log(out: str, world: World, on_event: Callable[[Event], None]) -> Iterator[Callable[[Event], None]]:
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
