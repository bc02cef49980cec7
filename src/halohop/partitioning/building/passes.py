"""The passes of a build: nodes are numbered, rows counted, moved, sorted and measured, each pass a stage of steps.

What goes from one stage to the next are the results of steps and the files that they wrote; so several processes can share the
steps, and what each computes besides is the same in all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from halohop.partitioning.assigners.division import Division
from halohop.partitioning.building.buckets import Buckets, Survey, blocks_of, bucket_table, divide, scatter, survey
from halohop.partitioning.building.contents import Contents, contents_of
from halohop.partitioning.building.edges import EdgeReader
from halohop.partitioning.building.fields import Table, edge_table, node_table
from halohop.partitioning.building.layout import Memory, cut_range, step_ranges
from halohop.partitioning.building.nodes import NodeColumns, NodeParts, node_columns
from halohop.partitioning.building.numbering import NodeOrder, id_dtype, number_nodes
from halohop.partitioning.building.running import Runner, step
from halohop.partitioning.building.sorting import sort_lists, sort_rows, split
from halohop.partitioning.steps.steps import Step, StepProgress
from halohop.store.filling import ArraySpec, Filler
from halohop.store.manifest import sparse_files
from halohop.store.tables import GraphTables, schema_of
from halohop.typing import EdgeDir, NodeType, TableKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """The passes over a graph.

    Args:
        tables: the graph.
        num_parts, halo, edge_dir: as of `halohop.partitioning.building.build.partition`.
        runner: runs the steps.
        folder: of the new data set.
        scratch: of files that are needed meanwhile, where steps leave all that they did on the disk; None: no table needs such.
        memory: what a step may take.
    """

    tables: GraphTables
    num_parts: int
    halo: Sequence[str]
    edge_dir: EdgeDir
    runner: Runner
    folder: Path
    scratch: Path | None
    memory: Memory

    def run(self, divide_nodes: Callable[[], Division]) -> Contents:
        """Writes the files of all partitions; returns what is in them."""
        nodes, num_blocks = self._numbered(divide_nodes)
        reader = EdgeReader(self.tables, {name: own.order for name, own in nodes.items()}, self.halo, self.edge_dir)
        stored: dict[TableKey, Table] = {name: node_table(name, own) for name, own in nodes.items()}
        for relation in self.tables.edges:
            stored[relation] = edge_table(relation, reader.columns(relation))
        large = [key for key, table in stored.items() if not self._is_quick(table, nodes)]
        buckets = dict(zip(large, self._divided([stored[key] for key in large]), strict=True))
        moves = [move for key, table in stored.items() for move in self._moves(table, nodes, buckets.get(key))]
        moves += [step(f"sparse columns of {name}", self._move_sparse, name, own) for name, own in nodes.items() if own.sparse]
        results = self.runner.run("move", moves)
        sorts = [some for key in large for some in self._sorts(stored[key], buckets[key])]
        results += self.runner.run("sort", sorts) if sorts else []
        bounds = {name: own.order.bounds for name, own in nodes.items()}
        return contents_of(schema_of(self.tables), bounds, self.edge_dir, stored, results, num_blocks)

    def _numbered(self, divide_nodes: Callable[[], Division]) -> tuple[dict[NodeType, NodeColumns], int]:
        (assigned,) = self.runner.run("assign", [step("assign", self._assign, divide_nodes)])
        steps = [
            step(f"number {name}", self._number, number, size=table.num_nodes + 1)
            for number, (name, table) in enumerate(self.tables.nodes.items())
        ]
        nodes = {}
        for number, found in enumerate(self.runner.run("number", steps)):
            name, table = list(self.tables.nodes.items())[number]
            gid = self.runner.load(f"gid-{number}", id_dtype(table.num_nodes), table.num_nodes) if found["moves"] else None
            order = NodeOrder(
                bounds=tuple(found["bounds"]),
                gid=gid,
                by_part=found["by_part"],
                raw_ends=None if found["raw_ends"] is None else tuple(found["raw_ends"]),
            )
            block = None
            if assigned["blocks"]:
                block = self.runner.load(f"block-{number}", getattr(torch, assigned["blocks"][number]), table.num_nodes)
            nodes[name] = node_columns(table, order, block)
        return nodes, assigned["num_blocks"]

    def _assign(self, divide_nodes: Callable[[], Division], progress: StepProgress) -> dict[str, Any]:
        division = divide_nodes()
        blocks = []
        for number, name in enumerate(self.tables.nodes):
            self.runner.save(f"part-{number}", division.part[name].int())
            if division.block is not None:
                self.runner.save(f"block-{number}", division.block[name])
                blocks.append(str(division.block[name].dtype).removeprefix("torch."))
        return {"num_blocks": division.num_blocks, "blocks": blocks}

    def _number(self, number: int, progress: StepProgress) -> dict[str, Any]:
        table = list(self.tables.nodes.values())[number]
        part = self.runner.load(f"part-{number}", torch.int32, table.num_nodes)
        order = number_nodes(table, part, self.num_parts, self.memory.room)
        if order.gid is not None:
            self.runner.save(f"gid-{number}", order.gid)
        return {
            "bounds": order.bounds,
            "by_part": order.by_part,
            "raw_ends": order.raw_ends,
            "moves": order.gid is not None,
        }

    def _is_quick(self, table: Table, nodes: Mapping[NodeType, NodeColumns]) -> bool:
        """Whether a table needs no buckets."""
        return (not table.lists and nodes[str(table.key)].order.by_part) or self.memory.fits(table)

    def _divided(self, tables: Sequence[Table]) -> list[Buckets]:
        """Buckets of the tables that do not fit into memory."""
        if not tables:
            return []
        steps = [
            step(f"count {table.key}", self._survey, table, rows, f"counts-{number}-{rows.start}", size=len(rows))
            for number, table in enumerate(tables)
            for rows in step_ranges(table)
        ]
        found = iter(self.runner.run("count", steps))
        facts = [[next(found) for _ in step_ranges(table)] for table in tables]
        divided = self.runner.run(
            "divide",
            [step(f"divide {table.key}", self._divide, table, number, facts[number]) for number, table in enumerate(tables)],
        )
        return [msgspec.convert(one, Buckets) for one in divided]

    def _survey(self, table: Table, rows: range, name: str, progress: StepProgress) -> dict[str, Any]:
        found = survey(table, self.memory.chunks(table, rows), blocks_of(table.bounds), progress)
        self.runner.save(name, found.counts)
        return {"first": found.first, "last": found.last, "rises": found.rises}

    def _divide(self, table: Table, number: int, facts: Sequence[dict[str, Any]], progress: StepProgress) -> Any:
        blocks = blocks_of(table.bounds)
        surveys = [
            Survey(counts=self.runner.load(f"counts-{number}-{rows.start}", torch.int64, len(blocks) - 1), **known)
            for rows, known in zip(step_ranges(table), facts, strict=True)
        ]
        costs = {"row_bytes": self.memory.sort_cost(table), "gid_bytes": self.memory.gid_cost(table)}
        return msgspec.to_builtins(divide(surveys, blocks, table.bounds, **costs, memory=self.memory.room))

    def _moves(self, table: Table, nodes: Mapping[NodeType, NodeColumns], buckets: Buckets | None) -> list[Step]:
        """What brings the rows of a table to their place, or into buckets."""
        if not table.lists and (not table.fields or not table.num_rows):
            return []
        size = table.num_rows * table.row_bytes + 1
        if buckets is None and table.lists:
            return [step(f"sort {table.key}", self._sort_lists, table, None, 0, size=size)]
        if buckets is None and not nodes[str(table.key)].order.by_part:
            return [step(f"sort {table.key}", self._sort_rows, table, None, 0, size=size)]
        if buckets is not None and not buckets.per_step:
            return []
        return [
            step(f"move {table.key}", self._move, table, number, rows, buckets, size=len(rows) * table.row_bytes)
            for number, rows in enumerate(step_ranges(table))
        ]

    def _move(self, table: Table, number: int, rows: range, buckets: Buckets | None, progress: StepProgress) -> dict[str, Any]:
        chunks = self.memory.chunks(table, rows)
        if buckets is not None:
            for done in scatter(table, chunks, buckets, number, self._bucket_folder(table)):
                progress(done * table.row_bytes)
            return {}
        with self._filler() as filler:
            for done in split(table, chunks, filler):
                progress(done * table.row_bytes)
        return {"extents": filler.extents}

    def _sorts(self, table: Table, buckets: Buckets) -> list[Step]:
        """What brings the rows of buckets to their place."""
        run = self._sort_lists if table.lists else self._sort_rows
        return [
            step(f"sort {table.key}", run, table, buckets, number, size=(last - first) * table.row_bytes + 1)
            for number, (first, last) in enumerate(zip(buckets.rows[:-1], buckets.rows[1:], strict=True))
        ]

    def _sort_rows(self, table: Table, buckets: Buckets | None, number: int, progress: StepProgress) -> dict[str, Any]:
        gids, some = self._bucket(table, buckets, number)
        with self._filler() as filler:
            sort_rows(some, gids, filler)
        return {"extents": filler.extents}

    def _sort_lists(self, table: Table, buckets: Buckets | None, number: int, progress: StepProgress) -> dict[str, Any]:
        gids, some = self._bucket(table, buckets, number)
        known: dict[str, Any] = {}
        ranges = [range(some.num_rows)]
        if buckets is not None:
            known = {"first": buckets.rows[number], "bounds": buckets.parts, "with_id": bool(buckets.per_step)}
            ranges = cut_range(ranges[0], self.memory.room // self.memory.sort_cost(table))
        with self._filler() as filler:
            found = sort_lists(some, gids, ranges, filler, **known)
        return {"extents": filler.extents, "table": table.key, "lists": msgspec.to_builtins(found)}

    def _bucket(self, table: Table, buckets: Buckets | None, number: int) -> tuple[tuple[int, int], Table]:
        """The gids of a bucket, and its rows; all of the table, where there are no buckets."""
        if buckets is None:
            return (0, table.bounds[-1]), table
        gids = (buckets.bounds[number], buckets.bounds[number + 1])
        if not buckets.per_step:
            return gids, table.part(buckets.rows[number], buckets.rows[number + 1])
        return gids, bucket_table(table, buckets, number, self._bucket_folder(table))

    def _move_sparse(self, name: NodeType, own: NodeColumns, progress: StepProgress) -> dict[str, Any]:
        parts, arrays, bounds = NodeParts(own), [], own.order.bounds
        with self._filler() as filler:
            for column in own.sparse:
                for part in range(self.num_parts):
                    rows = parts.sparse(column, bounds[part], bounds[part + 1])
                    stored: Sequence[Tensor] = (rows.indptr, rows.indices, rows.values)
                    for path, array in zip(sparse_files(part, name, column), stored, strict=True):
                        dtype = str(array.dtype).removeprefix("torch.")
                        filler.write(ArraySpec(path=path, dtype=array.dtype, shape=tuple(array.shape)), 0, array)
                        arrays.append((part, path, dtype, tuple(array.shape)))
        return {"extents": filler.extents, "table": name, "arrays": arrays}

    def _filler(self) -> Filler:
        return Filler(self.folder, self.memory.dirty_bytes if self.scratch else None)

    def _bucket_folder(self, table: Table) -> Path:
        assert self.scratch is not None, "a table that does not fit into memory"
        tables = [*self.tables.nodes, *self.tables.edges]
        return self.scratch / "buckets" / f"{tables.index(table.key):04d}"
