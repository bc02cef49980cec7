"""The loop that every training recipe goes through: steps, validation, early stopping, the best model, test, and events.

Steps are synchronous (DistributedDataParallel): the gradient of a step is that of the mean loss over all examples of all ranks,
however unevenly they are dealt.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from halohop import memory
from halohop.collectives import add_over_ranks, max_over_ranks, sum_over_ranks
from halohop.inference import check_finite
from halohop.recipes.build import build_model
from halohop.recipes.checkpoint import FORMAT, MODEL, CheckpointInfo, save_checkpoint
from halohop.recipes.compiling import CompiledModel
from halohop.recipes.config import to_dict
from halohop.recipes.copies import Copies
from halohop.recipes.events import Event, EventLog
from halohop.recipes.folder import clear_run
from halohop.recipes.names import CHECKPOINT, METRICS, STATE, TABLES
from halohop.recipes.resume import Keeper, Part, RunProgress, Saved, read_state
from halohop.recipes.stopping import ResumableStop, never
from halohop.recipes.task import Score, Setting, Task, moved, num_edges
from halohop.recipes.vector_files import VectorFiles
from halohop.recipes.vector_tables import VectorTables
from halohop.recipes.waiting import Watch, worst

_SUMMED = ("seeds", "sampled_edges", "local_rows", "remote_rows")
_LONGEST = ("wait_seconds",)

_READ_EVERY = {"cpu": 1, "cuda": 8}
"""Steps between two reads of the sums of losses, by device. On a GPU each read waits for all steps before it."""


class Run:
    """One trainer's part of a run.

    Args:
        task: what is learned.
        setting: where.
        emit: called with every event; on other ranks than 0 it does nothing.
        asked: whether this rank is asked to end.
    """

    def __init__(self, task: Task, setting: Setting, emit: EventLog, asked: Callable[[], bool] = never) -> None:
        self.task, self.emit, self._asked = task, emit, asked
        self.config, self.graph, self.world, self.device = setting.config, setting.graph, setting.world, setting.device
        self.saved = state = read_state(setting) if self.config.resume else None
        torch.manual_seed(self.config.seed)  # the same weights on every rank
        self.model = build_model(task.spec).to(self.device)
        stepped: nn.Module = CompiledModel(self.model) if self.config.compile else self.model
        self.ddp: nn.Module = DistributedDataParallel(stepped) if self.world.size > 1 else stepped
        self.vectors = VectorTables(setting, self.model, None if state is None else state["vectors"]["token"])
        decay = self.config.weight_decay
        adam = torch.optim.Adam(self.model.parameters(), lr=self.config.lr, weight_decay=decay, fused=True)
        self.optimizers = [adam, *self.vectors.optimizers]
        torch.manual_seed(self.config.seed + 1_000_003 * (self.world.rank + 1))  # dropout of its own on every rank
        self.loader = task.loader("train")
        self.copies = Copies(self.config, self.world)
        self.keeper = Keeper(setting, self.model, adam, self.loader, self.vectors)
        self.progress = RunProgress()
        self.best_state: dict[str, Tensor] = {}
        self.best_vectors: tuple[VectorFiles, ...] = ()
        self._start = time.perf_counter()  # as if there had been no interruption

    def go(self) -> Event:
        """Trains, and tests the best model; returns the last event.

        Raises:
            ResumableStop: a rank was asked to end, and the run is saved.
            NotFiniteError: a loss or a weight is NaN or infinite; what was saved before stays.
        """
        try:
            return self._go()
        finally:
            # DDP must be gone before the process group ends. If it held the last reference to it, the group's end would wait,
            # with Python's lock, for a thread that may be waiting for this lock.
            self.ddp = self.model

    def _go(self) -> Event:
        if self.saved is not None:
            self._resume(self.saved)
        else:
            self.emit.begin(lambda: clear_run(self.config))
            self._announce()
            self._save(self.progress)
        while self.progress.epoch < self.config.epochs and not 0 < self.config.patience <= self.progress.stale:
            self._finish_epoch()
            if max_over_ranks(float(self._asked()), self.device, self.world):
                self._stop(self.progress)
            self._save(self.progress)
        if self.progress.best is None:
            self._keep(None)
        return self._end()

    def _finish_epoch(self) -> None:
        event = self._epoch(self.progress.epoch + 1, self.progress.part)
        epoch, edges = self.progress.epoch + 1, self.progress.edges + event["sampled_edges"]
        self.progress = replace(self.progress, epoch=epoch, part=Part(), edges=edges)
        due = epoch % self.config.eval_every == 0 or epoch == self.config.epochs
        score = self._score("val") if "val" in self.task.splits and due else None
        figures = {f"val_{name}": figure for name, figure in score.figures.items()} if score else {}
        self.emit(event | {f"val_{self.task.figure}": None} | figures | {"val_loss": score and score.loss})
        if score is None:
            return
        self._evaluated("val", epoch, score)
        if score.beats(self.progress.best):
            self._keep(score)
        else:
            self.progress = replace(self.progress, stale=self.progress.stale + 1)

    def _epoch(self, epoch: int, begun: Part) -> Event:
        self.ddp.train()
        part, before, watch, start = begun, self.loader.statistics(), Watch(self.loader), time.perf_counter()
        edges: int | Tensor = 0
        sums = torch.tensor([begun.losses, begun.known, 0], dtype=torch.float64, device=self.device)
        for step, batch in enumerate(self.loader, begun.step + 1):
            sums += self._step(moved(batch, self.device))
            edges = edges + num_edges(batch)
            logs, saves = (every > 0 and step % every == 0 for every in (self.config.log_every, self.config.save_every))
            if not (logs or saves or self._reads(step)):
                continue
            part, asked = self._read(part, step, sums)
            if logs:
                progress = {"step": step, "steps": len(self.loader), "loss": part.losses / max(part.known, 1)}
                self.emit({"event": "step", "epoch": epoch, **progress})
            if asked:
                self._stop(replace(self.progress, part=self._measured(part, begun, edges, before, start)))
            if saves and step < len(self.loader):
                self._save(replace(self.progress, part=self._measured(part, begun, edges, before, start)))
        reason = worst(watch.reason(time.perf_counter() - start, rank=self.world.rank), self.device, self.world)
        part = self._measured(part, begun, edges, before, start)
        spent, seconds = part.spent, part.seconds
        rows = spent["local_rows"] + spent["remote_rows"]
        return {
            "event": "epoch",
            "epoch": epoch,
            "loss": part.losses / max(part.known, 1),
            "train_seconds": seconds,
            **{name: spent[name] for name in _LONGEST},
            **{name: round(spent[name]) for name in _SUMMED},
            "edges_per_second": spent["sampled_edges"] / seconds,
            "seeds_per_second": spent["seeds"] / seconds,
            "remote_share": spent["remote_rows"] / rows if rows else None,
            "batch_bytes": round(max_over_ranks(self.loader.statistics()["heaviest_batch_bytes"], self.device, self.world)),
            "held_up": None if reason is None else msgspec.to_builtins(reason) | {"line": reason.line},
        }

    def _measured(self, part: Part, begun: Part, edges: int | Tensor, before: dict[str, float], start: float) -> Part:
        """The part of an epoch with what it took over all ranks: `edges` of the batches that were used, and of what the loader
        counted for those that were made the share of those that were used."""
        spent = {name: value - before.get(name, 0) for name, value in self.loader.statistics().items()}
        used = (part.step - begun.step) / max(spent.get("batches", 0), 1)
        amounts = {name: spent.get(name, 0) * used for name in _SUMMED} | {"sampled_edges": int(edges)}
        sums = sum_over_ranks(list(amounts.values()), self.device, self.world)
        longest = [max_over_ranks(spent.get(name, 0), self.device, self.world) for name in _LONGEST]
        seconds = max_over_ranks(time.perf_counter() - start, self.device, self.world)
        measured = dict(zip((*_SUMMED, *_LONGEST), (*sums, *longest), strict=True))
        all_spent = {name: amount + begun.spent.get(name, 0) for name, amount in measured.items()}
        return replace(part, seconds=begun.seconds + seconds, spent=all_spent)

    def _reads(self, step: int) -> bool:
        """True if the host reads the sums after a step: after each; on a GPU after every few, the last, and a request to end."""
        return step % _READ_EVERY[self.device.type] == 0 or step == len(self.loader) or (self.world.size == 1 and self._asked())

    def _read(self, part: Part, step: int, sums: Tensor) -> tuple[Part, bool]:
        """The part of an epoch after a step, and whether a rank is asked to end.

        Raises:
            NotFiniteError: the loss is NaN or infinite.
        """
        check_finite("the loss of training", sums[:1])
        losses, known, asked = sums.tolist()
        return replace(part, step=step, losses=losses, known=known), asked > 0

    def _step(self, batch: Any) -> Tensor:
        """Takes one step on all ranks. On a GPU the host does not wait for the result.

        Returns float64 ``[3]``: the sum of the ranks' losses, the number of examples, and how many ranks are asked to end.

        A rank without examples goes through the same steps with a sum over nothing: no rank waits for it.
        """
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.amp):
            loss, count = self.task.loss(self.ddp, batch)
        asked = torch.full_like(loss, self._asked(), dtype=torch.float64)
        sums = add_over_ranks(torch.stack([loss.detach().double(), count.double(), asked]), self.world)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        torch.autograd.backward(loss * (self.world.size / sums[1].clamp(min=1)))  # DDP will divide by the number of ranks
        for optimizer in self.optimizers:
            optimizer.step()
        return sums

    def _stop(self, progress: RunProgress) -> NoReturn:
        """Saves where all ranks are, and ends the run."""
        self._save(progress)
        self.vectors.drop()
        self.emit({"event": "stop", "epoch": progress.epoch + 1, "step": progress.part.step})
        raise ResumableStop

    def _keep(self, score: Score | None) -> None:
        """Remembers the model as it is now."""
        for name, value in self.model.state_dict().items():
            check_finite(f"the weight {name!r} of the model", value)
        self.progress = replace(self.progress, best=score, best_epoch=self.progress.epoch, stale=0)
        self.best_state = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
        if self.world.rank == 0:
            self.best_vectors = self.vectors.write(Path(self.config.out) / CHECKPOINT, self.progress.best_epoch)
        self._save_best()

    def _save_best(self) -> None:
        if self.world.rank == 0 and self.best_state:
            best, epoch = self.progress.best, self.progress.best_epoch
            score = None if best is None else best.main
            info = CheckpointInfo(
                format=FORMAT,
                model=self.task.spec,
                train=self.config,
                epoch=epoch,
                val_score=score,
                vectors=self.best_vectors,
            )
            save_checkpoint(Path(self.config.out) / CHECKPOINT, info, self.best_state)
            names = [name for files in self.best_vectors for name in (files.ids, files.rows)]
            self.copies.send(*(f"{CHECKPOINT}/{name}" for name in (*names, MODEL)))

    def _save(self, progress: RunProgress) -> None:
        """Makes this the place from which another run can go on."""
        progress = replace(progress, seconds=time.perf_counter() - self._start)
        state, vectors = self.best_state, self.best_vectors
        self.keeper.save(Saved(progress=progress, best_state=state, best_vectors=vectors, log_bytes=self.emit.size))
        self.copies.send(METRICS, TABLES, STATE)
        if self.task.spec.learns_vectors:
            self.copies.forget(TABLES, CHECKPOINT)

    def _resume(self, state: dict[str, Any]) -> None:
        saved = self.keeper.restore(state)
        self.progress, self.best_state, self.best_vectors = saved.progress, saved.best_state, saved.best_vectors
        self._start = time.perf_counter() - saved.progress.seconds
        self.emit.go_on(saved.log_bytes)
        self.emit({"event": "resume", "epoch": self.progress.epoch + 1, "step": self.progress.part.step})
        self._save_best()

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
                "eval_by_layers": self.task.by_layers,
                "ranks": self.world.size,
                "hosts": self.world.num_hosts,
                "device": str(self.device),
                "threads": torch.get_num_threads(),
            }
        )

    def _score(self, split: str) -> Score:
        """The score of a split. What training has freed is not kept meanwhile, and what this frees is not kept afterwards."""
        memory.release()
        score = self.task.evaluate(self.model, split)
        memory.release()
        return score

    def _evaluated(self, split: str, epoch: int, score: Score) -> None:
        counted = {self.task.scored: score.count, "seconds": score.seconds}
        self.emit({"event": "evaluation", "split": split, "epoch": epoch, **score.figures, "loss": score.loss, **counted})

    def _end(self) -> Event:
        """Tests the best model."""
        figures: dict[str, float | None] = {f"test_{self.task.figure}": None}
        if "test" in self.task.splits:
            self.model.load_state_dict(self.best_state)
            if self.progress.best_epoch != self.progress.epoch:
                self.vectors.read(Path(self.config.out) / CHECKPOINT, self.best_vectors)
            score = self._score("test")
            self._evaluated("test", self.progress.best_epoch, score)
            figures = {f"test_{name}": figure for name, figure in score.figures.items()}
        best = self.progress.best
        end = {
            "event": "end",
            **figures,
            "best_epoch": self.progress.best_epoch,
            f"best_val_{self.task.figure}": None if best is None else best.main,
            "epochs": self.progress.epoch,
            "sampled_edges": self.progress.edges,
            "seconds": time.perf_counter() - self._start,
        }
        self.emit(end)
        self.copies.send(METRICS)
        self.vectors.drop()
        return end
