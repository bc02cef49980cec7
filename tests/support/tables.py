"""Owners of tables in this process, and what ranks and clients ask them."""

import itertools
from concurrent.futures import Future
from dataclasses import replace

import torch
from torch import Tensor

from halohop.partitioning.book import Book
from halohop.store.part import NodePart, Part
from halohop.tables.change_messages import (
    AbortRequest,
    ApplyRequest,
    ChangeRequest,
    LeaveRequest,
    Moment,
    Share,
    TrainRequest,
)
from halohop.tables.messages import MakeTableRequest, ReadRowsRequest, TableQuery
from halohop.tables.owner import Owner
from halohop.tables.rule_spec import RuleSpec
from halohop.tables.spec import TableSpec

BOUNDS = (0, 4, 10)
RAW = torch.tensor([3, 5, 7, 9, 0, 1, 2, 4, 6, 8])
"""The user's ids, by gid."""

BOOK = Book(nodes={"node": BOUNDS}, edges={})
SGD = RuleSpec(kind="sgd", ranks="sum")


def part_of(number: int, columns: dict[str, Tensor] | None = None) -> Part:
    low, high = BOUNDS[number : number + 2]
    mine = {name: column[low:high] for name, column in (columns or {}).items()}
    return Part(nodes={"node": NodePart(num_nodes=high - low, raw_id=RAW[low:high], columns=mine)}, edges={})


def owner_of(*parts: int, columns: dict[str, Tensor] | None = None, **options: object) -> Owner:
    return Owner(BOOK, {number: part_of(number, columns) for number in parts or (0, 1)}, folder=None, anywhere=True, **options)


def spec_of(name: str = "x", shape: tuple[int, ...] = (2,), dtype: str = "float32", **rest: object) -> TableSpec:
    return TableSpec(name=name, key="node", num_rows=10, shape=shape, dtype=dtype, **rest)


def ask(owner, request, seconds=10.0):
    """The reply, however the owner gives it."""
    reply = owner.answer(request)
    return reply.result(seconds) if isinstance(reply, Future) else reply


def make(owner, spec, sender="client"):
    return ask(owner, MakeTableRequest(spec=spec, sender=sender))


def read(owner, name="x", gid=None, state=""):
    gid = torch.arange(10) if gid is None else torch.tensor(gid)
    return ask(owner, ReadRowsRequest(queries=(TableQuery(name=name, gid=gid, state=state),))).rows[0]


def share(gid, rows, name="x", lr=1.0, dtype=torch.float32):
    rows = torch.as_tensor(rows, dtype=dtype)
    gid = torch.tensor(gid, dtype=torch.int64)
    return Share(name=name, gid=gid, rows=rows.expand(len(gid), 2) if rows.dim() < 2 else rows, lr=lr)


class Client:
    """A client's own changes, numbered."""

    def __init__(self, name="client"):
        self.name = name
        self.numbers = itertools.count()

    def request(self, way, *shares, alone=True, index=None):
        index = next(self.numbers) if index is None else index
        moment = Moment(group=self.name, session="", rank=0, size=1, round=0, index=index)
        return ChangeRequest(moment=moment, way=way, shares=shares, alone=alone)

    def put(self, owner, way, *shares):
        return ask(owner, self.request(way, *shares))


class Ranks:
    """The ranks of an optimiser at some owners."""

    def __init__(self, owners, size, *, rules=None, group="adam", sender="job"):
        self.owners, self.size, self.group = owners, size, group
        self.session = ""
        for rank in range(size):
            for owner in owners:
                moment = replace(self.moment(rank, 0), session="" if owner is owners[0] else self.session)
                training = ask(owner, TrainRequest(moment=moment, rules=rules or {"x": SGD}, sender=f"{sender} {rank}"))
                self.session = training.session

    def moment(self, rank, index, round_=0):
        return Moment(group=self.group, session=self.session, rank=rank, size=self.size, round=round_, index=index)

    def step(self, rank, index, *shares, alone=True, norm=False, seconds=10.0, round_=0):
        moment = self.moment(rank, index, round_)
        return ChangeRequest(moment=moment, way="step", shares=shares, alone=alone, norm=norm, seconds=seconds)

    def apply(self, rank, index, scale=1.0, round_=0):
        return ApplyRequest(moment=self.moment(rank, index, round_), scale=scale)

    def abort(self, rank, index, reason="it has no time"):
        return AbortRequest(moment=self.moment(rank, index), reason=reason)

    def leave(self, rank, index, round_=0):
        return LeaveRequest(moment=self.moment(rank, index, round_))
