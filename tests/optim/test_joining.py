"""Ranks of unequal length: under torch's `Join`, in processes of their own, and in loops that leave by themselves."""

from functools import partial
from itertools import zip_longest
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import halohop
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, environment, partitioned
from tests.optim.joined import DIM, EPOCHS, NODES, RANKS, Head, batches
from tests.optim.ranks import Plan, trained, truth, uneven_plan
from tests.support.forked import Forked


def union() -> tuple[torch.Tensor, Head, int]:
    """The same by one process: the union of the ranks' batches, in which a rank that has ended counts as zeros."""
    begin = halohop.DistEmbedding(partitioned(ring(NODES), 1), None, DIM, "learned", node_type="node", seed=1)
    table = nn.Embedding.from_pretrained(begin.weight[torch.arange(NODES)], freeze=False, sparse=True)
    head, steps = Head(), 0
    dense, sparse = torch.optim.SGD(head.parameters(), lr=0.1), torch.optim.SparseAdam([table.weight], lr=0.05)
    for epoch in range(EPOCHS):
        for of_ranks in zip_longest(*(batches(epoch, rank) for rank in range(RANKS))):
            losses = [F.cross_entropy(head(table(batch[0])), batch[1]) for batch in of_ranks if batch is not None]
            dense.zero_grad()
            sparse.zero_grad()
            (torch.stack(losses).sum() / RANKS).backward()
            dense.step()
            sparse.step()
            steps += 1
    return table.weight.detach(), head, steps


@pytest.mark.parametrize("ranks", [2, 3])
def test_rounds_of_loops_that_leave_by_themselves(ranks: int) -> None:
    make = partial(halohop.optim.SparseAdam, lr=0.02)
    first, second = (uneven_plan(NODES, DIM, steps=10, ranks=ranks, seed=seed) for seed in (0, 1))
    plan = Plan(ids=first.ids + second.ids, pull=first.pull)
    with partitioned(ring(NODES), 2, shard_each=True) as graph:
        begin = halohop.DistTensor(graph, (NODES, DIM), name="learned", init=halohop.init.normal(), seed=1)[torch.arange(NODES)]
        found = trained([graph], "learned", make, plan, rounds=2, seed=1)
    torch.testing.assert_close(found, truth(begin, partial(torch.optim.SparseAdam, lr=0.02), plan), atol=1e-5, rtol=0)


@pytest.mark.full
@pytest.mark.timeout(120)
def test_join_makes_ranks_of_unequal_length_one_loop(tmp_path: Path) -> None:
    halohop.partition(ring(NODES), tmp_path / "parts", num_parts=2, method="random")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    with halohop.serve(tmp_path / "parts", token=TOKEN, listen="127.0.0.1:0") as server:
        ranks = [
            Forked(
                "tests.optim.joined_rank",
                [server.address, str(tmp_path)],
                environment() | meeting | {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "GLOO_SOCKET_IFNAME": "lo"},
                cwd=Path.cwd(),
            )
            for rank in range(RANKS)
        ]
        codes = [rank.wait(100) for rank in ranks]
        assert codes == [0] * RANKS, [rank.stderr.read() for rank in ranks]
        for rank in ranks:
            rank.close()
        with halohop.connect([server.address], token=TOKEN) as graph:
            rows = halohop.DistTensor.attach(graph, "learned")[torch.arange(NODES)]
    expected, head, steps = union()
    saved = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(RANKS)]
    assert [one["steps"] for one in saved] == [{"learned": steps}] * RANKS
    torch.testing.assert_close(rows, expected, atol=1e-5, rtol=0)
    for one in saved:
        torch.testing.assert_close(one["dense"], dict(head.state_dict()), atol=1e-5, rtol=0)
