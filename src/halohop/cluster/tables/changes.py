"""One change of tables at all their owners: wholly or not at all, and once."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from halohop import ops
from halohop.cluster.tables.names import TableNames
from halohop.cluster.tables.owners import TableOwners, failures
from halohop.tables.change_messages import (
    AbortRequest,
    Applied,
    ApplyRequest,
    Changed,
    ChangeRequest,
    Moment,
    Share,
    Way,
)
from halohop.tables.messages import TableRequest
from halohop.tables.spec import TableSpec
from halohop.uninterrupted import uninterrupted

_LOG = logging.getLogger(__name__)
_ABORT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A change that has happened.

    Args:
        steps: by table, of its optimiser, so far.
        square: the sum of the squared entries of all gradients, where it was asked for.
    """

    steps: dict[str, int]
    square: float


class Change:
    """A change that can be sent: this rank's shares, by owner; `apply` sends them, and lets it happen.

    Args:
        owners: of all tables.
        names: explain what an owner refuses.
        moment, way: as of `ChangeRequest`.
        shares: of each table at most one, with its spec.
        norm: the sum of the squared entries of all gradients, over all owners, is asked for.
        scale: the factor of all gradients, by that sum; None: 1.
        max_norm: that this factor follows from, which owners compare between ranks.
        seconds: that owners wait for other ranks.
        pool: where the memory of what is sent comes from.
    """

    def __init__(
        self,
        owners: TableOwners,
        names: TableNames,
        moment: Moment,
        way: Way,
        shares: Sequence[tuple[TableSpec, Share]],
        *,
        norm: bool,
        scale: Callable[[float], float] | None,
        max_norm: float,
        seconds: float,
        pool: ops.Pool,
    ) -> None:
        self._owners, self._names, self._moment, self._scale = owners, names, moment, scale
        self._seconds = seconds if way == "step" else 0.0  # no other rank is part of a write
        waits = seconds if way == "step" else owners.call_seconds  # owners remember a write for as long as it may come again
        self._specs = [spec for spec, _ in shares]
        by_owner: dict[int, list[Share]] = {owner: [] for owner in range(owners.num_owners)} if way == "step" else {}
        for spec, share in shares:
            divided = owners.divide(spec, share.gid)
            for owner, positions in divided.items():
                whole = len(positions) == len(share.gid)
                by_owner.setdefault(owner, []).append(share if whole else share.of(positions, pool))
            if way == "step":  # all owners see every step of a table
                for owner in by_owner.keys() - divided.keys():
                    by_owner[owner].append(share.of(share.gid[:0]))
        alone = len(by_owner) == 1 and scale is None
        self._requests = {
            owner: ChangeRequest(
                moment=moment,
                way=way,
                shares=tuple(mine),
                alone=alone,
                norm=norm or scale is not None,
                max_norm=max_norm,
                seconds=waits,
            )
            for owner, mine in by_owner.items()
        }

    def apply(self) -> Done:
        """Sends the shares, waits until all owners have those of all ranks, and lets the change happen; if one refuses or is
        lost, at none of them.

        Raises:
            InputError, RemoteError: an owner refuses a share; of the other ranks, too.
            PeerLostError: an owner is lost; names it.
            ClusterError: another rank's share did not come in time, or an owner came back empty.
        """
        ready = self._answers(self._send(self._requests))
        # In float32 the sum does not depend on how many owners there are (but once in some 10 million times).
        square = float(np.float32(sum(ready[owner].square for owner in sorted(ready))))
        if all(changed.applied for changed in ready.values()):
            return Done(steps=_steps(ready), square=square)
        factor = 1.0
        if self._scale is not None:
            try:
                factor = self._scale(square)
            except Exception as error:
                self._abort(ready, f"its gradients could not be scaled: {error}")
                raise
        applied = self._answers(self._send({owner: ApplyRequest(moment=self._moment, scale=factor) for owner in ready}))
        return Done(steps=_steps(applied), square=square)

    def _send(self, requests: Mapping[int, TableRequest[Any]]) -> "dict[int, Future[Any]]":
        """Asks all of them: after Ctrl-C there are not some that were asked and others that were not."""
        if len(requests) == 1:
            return self._owners.send(requests, seconds=self._seconds)
        with uninterrupted():
            return self._owners.send(requests, seconds=self._seconds)

    def _answers(self, asked: "dict[int, Future[Any]]") -> dict[int, Any]:
        """All answers; with the first error the change is aborted at the other owners."""
        found = self._owners.outcomes(asked, seconds=self._seconds)
        failed = failures(found)
        if not failed:
            return found
        owner, error = next(iter(failed.items()))
        self._abort([other for other in asked if other not in failed], f"{self._owners.holders[owner].name}: {error}")
        explained = self._names.explained(error, owner, self._specs)
        if explained is error:
            raise error
        raise explained from error

    def _abort(self, owners: Sequence[int] | dict[int, Any], reason: str) -> None:
        asked = self._send({owner: AbortRequest(moment=self._moment, reason=reason) for owner in owners})
        wait(asked.values(), timeout=_ABORT_SECONDS)
        for owner, future in asked.items():
            error = future.exception() if future.done() else "it does not answer"
            if error is not None:
                _LOG.warning("a change could not be aborted at %s: %s", self._owners.holders[owner].name, error)


def _steps(answers: Mapping[int, Changed | Applied]) -> dict[str, int]:
    return {name: steps for _, answer in sorted(answers.items()) for name, steps in answer.steps.items()}
