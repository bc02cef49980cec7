"""Batches in flight wait for other hosts at the same time, not one after the other."""

import threading

import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop.cluster.shard import LocalShard
from halohop.store.requests import FetchRequest, SampleRequest
from halohop.testing.worlds import hosts

NAMES = {FetchRequest: "_fetch", SampleRequest: "_sample"}
"""What answers them, whoever asks."""


class Meeting:
    """Holds answers to other hosts back until two have been asked for, or nobody asks a second time."""

    def __init__(self, seconds: float) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._seconds = seconds
        self.happened = threading.Event()

    def attend(self) -> None:
        if threading.current_thread().name.startswith("halohop-loader"):
            return  # its own rows
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                self.happened.set()
        self.happened.wait(self._seconds)
        with self._lock:
            self._inside -= 1


@pytest.mark.parametrize("what", [FetchRequest, SampleRequest], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("workers", "meet"), [(2, True), (1, False)])
def test_requests_of_two_batches_are_outstanding_together(tmp_path, monkeypatch, what, workers, meet):
    around = torch.arange(60)
    data = Data(x=torch.randn(60, 4), edge_index=torch.stack([around, around.roll(7)]))
    halohop.partition(data, tmp_path / "parts", num_parts=2, method="random")
    meeting = Meeting(60.0 if meet else 0.3)
    answer = getattr(LocalShard, NAMES[what])

    def held(self, *arguments):
        meeting.attend()
        return answer(self, *arguments)

    with hosts(tmp_path / "parts", [[0], [1]], cache=None) as graphs:
        monkeypatch.setattr(LocalShard, NAMES[what], held)
        loader = halohop.NeighborLoader(graphs[1], [2], batch_size=20, run="threads", num_workers=workers, prefetch_factor=1)
        assert len(list(loader)) == 3
    assert meeting.happened.is_set() == meet
