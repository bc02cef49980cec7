"""`halohop.DistEmbedding`: rows of a table that are looked up with a gradient."""

from collections.abc import Callable
from typing import Any, NoReturn, SupportsIndex

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.cluster.tables.owners import integers
from halohop.errors import InputError
from halohop.init import Init, normal
from halohop.ops import device as devices
from halohop.ops.device import DevicePool
from halohop.tables.spec import Storage
from halohop.telemetry import Counters
from halohop.tensors.dist_tensor import DistTensor
from halohop.tensors.early import EarlyRows
from halohop.tensors.gradients import Gradients
from halohop.typing import NodeType, Relation


class DistEmbedding(nn.Module):
    """Learned vectors that lie with the partitions, and are trained there by `halohop.optim`.

    It has no parameters: `model.parameters()`, DDP and the model's checkpoint know nothing of them. A lookup reads rows from
    their owners; backward brings their gradients back to this object; an optimiser's `step` sends them to the owners.

    Args:
        graph: the graph.
        num_embeddings: rows; with `node_type` or `relation` as many as there are nodes or edges, or None.
        embedding_dim: of a row.
        name: of the table, by which other ranks find it; None makes one up.
        init: what rows begin with, as of `DistTensor`; None: normally distributed, as torch's nn.Embedding.
        dtype: a dtype of floats.
        node_type, relation, storage, seed: as of `DistTensor`.

    Attributes:
        weight: the table, as a `DistTensor`.
        gradients: what backward has brought since the last step.
        steps: that an optimiser of this process has made, or found made.
        early: rows that `halohop.ReadAhead` has read for the batch of now.
    """

    def __init__(
        self,
        graph: Graph,
        num_embeddings: int | None,
        embedding_dim: int,
        name: str | None = None,
        init: Init | Callable[[Tensor], Tensor] | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        node_type: NodeType | None = None,
        relation: Relation | None = None,
        storage: Storage = "memory",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if dtype not in ops.FLOATS:
            raise InputError(
                f"rows of {dtype} have no gradient; give one of {', '.join(map(str, ops.FLOATS))}, or take a DistTensor"
            )
        self.weight = DistTensor(
            graph,
            (num_embeddings, embedding_dim),
            dtype,
            name,
            normal() if init is None else init,
            node_type=node_type,
            relation=relation,
            storage=storage,
            seed=seed,
        )
        self.graph = graph
        self.gradients = Gradients((embedding_dim,), dtype)
        self.steps = 0
        self.early: list[EarlyRows] = []
        self._counters = Counters()
        self._pools: dict[int, DevicePool] = {}  # of GPUs that are not the graph's

    @property
    def name(self) -> str:
        """Of the table."""
        return self.weight.name

    @property
    def num_embeddings(self) -> int:
        """Rows."""
        return self.weight.shape[0]

    @property
    def embedding_dim(self) -> int:
        """Of a row."""
        return self.weight.shape[1]

    @_disable_dynamo  # torch.compile runs it as it is; `torch.compiler.disable` would import the compiler with this module
    def forward(self, ids: Tensor | None = None, gid: Tensor | None = None, device: Any = None) -> Tensor:
        """Rows ``[*shape, embedding_dim]`` of ids of any shape.

        Under `torch.no_grad` they are rows and nothing else. Otherwise they have a gradient, which is kept for the next step once
        backward has come to them. A lookup that backward does not reach leaves nothing behind.

        Args:
            ids: integers of any shape: the user's ids of the nodes or edges, or numbers of rows.
            gid: the same as gids, int64 of any shape, which need not be located (a loader with ``gids=True`` gives them: `n_gid`,
                `e_gid`); zeros where one is negative, as in the empty places of padded batches.
            device: of the rows; None: that of the ids.

        Raises:
            IdError: an id that is not there.
            InputError: neither is given, or the device is not there.
        """
        given = ids if gid is None else gid
        if given is None:
            raise InputError("a lookup needs ids, or gid")
        if device is not None:
            _require_device(device)
        wanted, rows = self._found(given, by_gid=gid is not None)
        rows, pool = rows.view(*given.shape, self.embedding_dim), self._pool_for(given, device)
        rows = rows.to(given.device if device is None else device) if pool is None else pool.put(rows)
        return self.gradients.recorded(rows, wanted, pool) if torch.is_grad_enabled() else rows

    def gids(self, given: Tensor, *, by_gid: bool) -> Tensor:
        """Gids (int64 ``[n]``, on the CPU) of what is looked up, of any shape. Of ids on a GPU the host waits for them."""
        pool = self._pool_for(given)
        near = integers(given if pool is None else pool.bring(given), f"table {self.name!r}").reshape(-1)
        if not by_gid:
            return self.weight.gid(near)
        return near.clone() if pool is None else near  # users may reuse their memory before backward

    def _pool_for(self, given: Tensor, device: Any = None) -> DevicePool | None:
        """That of the GPU on which rows are wanted; None where it is none."""
        there = None if self.graph.on_device is None else self.graph.on_device.pool
        if device is None and not (isinstance(given, Tensor) and given.is_cuda):
            return None
        if device is None and there is not None and there.holds(given):
            return there
        wanted = given.device if device is None else torch.device(device)
        if wanted.type != "cuda":
            return None
        index = torch.cuda.current_device() if wanted.index is None else wanted.index
        if there is not None and there.device.index == index:
            return there
        if index not in self._pools:
            self._pools[index] = devices.device_pool(f"cuda:{index}")
        return self._pools[index]

    def statistics(self) -> dict[str, float]:
        """Sums so far: lookups by the age of their rows in steps ("lookups_of_age_0", ...), where rows were read ahead; those
        whose rows had become too old and were read again ("lookups_read_again"); and those by other ids than were read ahead
        ("lookups_not_ahead")."""
        return self._counters.snapshot()

    def _found(self, given: Tensor, *, by_gid: bool) -> tuple[Tensor, Tensor]:
        """Gids, and rows by them."""
        early = self._early(given, by_gid=by_gid)
        gid = self.gids(given, by_gid=by_gid) if early is None else early.gid
        known = gid >= 0  # gids of padded batches may be negative
        whole = not by_gid or bool(known.all())
        near = gid if whole else gid[known]
        rows = self.graph.tables.read(self.name, near) if early is None else early.rows
        if whole:
            return gid, rows
        return gid, torch.zeros(len(gid), self.embedding_dim, dtype=rows.dtype).masked_scatter_(known.view(-1, 1), rows)

    def _early(self, given: Tensor, *, by_gid: bool) -> EarlyRows | None:
        """What was read ahead for this lookup, unless it is too old; each is used once."""
        if not self.early:
            return None
        found = next((rows for rows in self.early if rows.serves(given, by_gid=by_gid)), None)
        if found is None:
            self._counters.add("lookups_not_ahead")
            return None
        self.early = [rows for rows in self.early if rows is not found]
        age = max(self.steps - found.steps, 0)
        if age > found.staleness:
            self._counters.add("lookups_read_again")
            return None
        self._counters.add(f"lookups_of_age_{age}")
        return found

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise InputError(
            f"the DistEmbedding of table {self.name!r} is not copied or pickled with a model: its rows stay with their owners, "
            "and both would have them; keep them by graph.tables.save, and make a DistEmbedding of this name where you need one"
        )

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, name={self.name!r}"


def _require_device(device: Any) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:  # each of them, by device and build of torch
        why = str(error).partition("\n")[0]
        raise InputError(f"device={device!r} cannot have rows: {why}; leave it out for the device of the ids") from error
