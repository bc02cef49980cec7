"""What a loader goes through, such as input nodes or edges: gives torch its length, and the sampler the seeds of a batch."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

from torch import Tensor
from torch.utils.data import IterableDataset

from halohop import ops
from halohop.loading.seeds import Share
from halohop.sampling.batch import AnySeeds, Seeds
from halohop.sampling.link_seeds import LinkSeeds
from halohop.typing import NodeType, Relation


class Examples(IterableDataset[int]):
    """The inputs of a loader, with a length. If `world` divides them, this is the data set that torch and Lightning see.

    It is iterable, so that Lightning does not inject a sampler.

    Attributes:
        listed: whether the user gave ids, which count as the rank's own seeds; not a mask, a split's name or nothing.
    """

    listed: bool = False

    def __init__(self, input_id: Tensor) -> None:
        self.input_id = input_id

    def __len__(self) -> int:
        return len(self.input_id)

    def __iter__(self) -> Iterator[int]:
        return iter(self.input_id.tolist())

    @abstractmethod
    def seeds(self, epoch: int, share: Share) -> AnySeeds:
        """Those of one batch. Only this knows what a position stands for: a node, an edge, a group of nodes."""

    @property
    def placed_by(self) -> tuple[NodeType, Tensor] | None:
        """A node for each input, whose block is that of the input: their type and gids, int64 ``[n]``. None where inputs have no
        place in the graph."""
        return None


class SeedDataset(Examples):
    """The input nodes, each with its time where sampling asks for it."""

    def __init__(self, *, node_type: NodeType, gid: Tensor, input_id: Tensor, time: Tensor | None = None) -> None:
        super().__init__(input_id)
        self.node_type = node_type
        self.gid = gid
        self.time = time
        self._pieces = [ops.Pieces([column.contiguous()], [0, len(column)]) for column in (gid, input_id)]

    @property
    def placed_by(self) -> tuple[NodeType, Tensor]:
        return self.node_type, self.gid

    def seeds(self, epoch: int, share: Share) -> Seeds:
        gid, input_id = (ops.gather_rows(column, share.positions) for column in self._pieces)
        return Seeds(
            node_type=self.node_type,
            gid=gid,
            input_id=input_id,
            epoch=epoch,
            index=share.index,
            time=None if self.time is None else ops.gather_rows(self.time, share.positions),
        )


class LinkDataset(Examples):
    """The input edges by their ends, each with its label and time where there are any.

    `steps` complete the seeds of every batch, one after the other: they add negatives, or name edges to leave out.
    """

    def __init__(
        self,
        *,
        relation: Relation,
        src_gid: Tensor,
        dst_gid: Tensor,
        input_id: Tensor,
        label: Tensor | None = None,
        time: Tensor | None = None,
        steps: Sequence[Callable[[LinkSeeds], LinkSeeds]] = (),
    ) -> None:
        super().__init__(input_id)
        self.relation = relation
        self.src_gid = src_gid
        self.dst_gid = dst_gid
        self.label = label
        self.time = time
        self._steps = steps

    @property
    def placed_by(self) -> tuple[NodeType, Tensor]:
        """The destinations."""
        return self.relation[2], self.dst_gid

    def seeds(self, epoch: int, share: Share) -> LinkSeeds:
        links = LinkSeeds(
            relation=self.relation,
            src_gid=ops.gather_rows(self.src_gid, share.positions),
            dst_gid=ops.gather_rows(self.dst_gid, share.positions),
            input_id=ops.gather_rows(self.input_id, share.positions),
            epoch=epoch,
            index=share.index,
            label=None if self.label is None else ops.gather_rows(self.label, share.positions),
            time=None if self.time is None else ops.gather_rows(self.time, share.positions),
        )
        for step in self._steps:
            links = step(links)
        return links
