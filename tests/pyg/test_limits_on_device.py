"""What a GPU cannot do is said in a sentence, and what looks as if it could not is done."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop.errors import InputError
from halohop.ops import device, gpu_relabel
from tests.support.pretend_gpu import PretendPool, home, pretended

pytestmark = pytest.mark.usefixtures("pretended_gpu")

THERE: dict[str, Any] = {"device": "cuda:0", "mode": "cuda"}
DTYPES = (
    *(torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float64),
    *(torch.bool, torch.int16, torch.uint16, torch.uint32, torch.uint64),
)


def some_graph(**columns: Any) -> Data:
    torch.manual_seed(0)
    return Data(x=torch.randn(40, 3), edge_index=torch.randint(40, (2, 200)), **columns)


def around(graph: Any, **options: Any) -> halohop.NeighborLoader:
    options = {"batch_size": 8, "run": "inline", "seed": 1} | options
    return halohop.NeighborLoader(graph, [3, 2], torch.arange(16), **options)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit for bit, of any dtype."""
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.parametrize("cache", [None, "1KB", "1MB"])
def test_columns_of_dtypes_that_kernels_do_not_compute_with(cache: Any) -> None:
    """Rows are read as words, whatever they hold."""
    columns = {str(dtype).removeprefix("torch."): torch.arange(120).view(40, 3).to(dtype) for dtype in DTYPES}
    with halohop.graph(some_graph(**columns), **THERE, feature_cache=cache) as graph:
        for batch in around(graph):
            for name, column in columns.items():
                assert same(home(batch[name]).contiguous(), column[home(batch.n_id)]), name


def test_times_of_a_dtype_that_nothing_draws_by_are_refused() -> None:
    graph = halohop.graph(some_graph(edge_t=torch.arange(200).half()), **THERE)
    with pytest.raises(InputError, match=r"times 'edge_t' of .* are float16 .*, of int32, int64, float32, float64"):
        around(graph, time_attr="edge_t", input_time=torch.arange(16))


def test_memory_that_the_system_does_not_lock_is_said_when_a_graph_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused(PretendPool):
        def page_locked_bytes(self, num_bytes: int) -> torch.Tensor:
            raise RuntimeError("CUDA error: out of memory")

    halohop.partition(some_graph(), tmp_path / "parts", num_parts=2, method="random")
    monkeypatch.setattr(device, "device_pool", lambda name, counters=None: Refused(counters, locks=False))
    with pytest.raises(InputError) as found:
        halohop.open(tmp_path / "parts", device="cuda:0", mode="zero_copy")
    assert "cannot be locked for cuda:0 (CUDA error: out of memory), and this process may lock" in str(found.value)
    assert str(found.value).endswith("raise that (ulimit -l), or leave device out")


def test_a_batch_that_comes_upon_more_nodes_than_have_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists may have any length; positions in a batch are int32."""
    graph = halohop.graph(some_graph(), **THERE)
    assert len(list(around(graph))) == 2
    monkeypatch.setattr(gpu_relabel, "_NONE", 30)
    with pytest.raises(InputError, match="comes upon 32 nodes, of which cuda:0 can number 29; take fewer seeds a batch"):
        list(around(graph))


def test_input_tensors_may_lie_on_several_devices() -> None:
    """The host reads them once, when the loader is made."""
    ends = torch.randint(40, (2, 20), generator=torch.Generator().manual_seed(2))
    label, when = torch.arange(20), torch.arange(20) + 100
    times = torch.arange(200)
    here = list(links(some_graph(edge_t=times), ends, label, when))
    graph = halohop.graph(some_graph(edge_t=times), **THERE)
    for given in ((pretended(ends), label, pretended(when)), (ends, pretended(label), when)):
        found = list(links(graph, *given))
        assert len(found) == len(here) > 1
        for one, other in zip(found, here, strict=True):
            for key, value in other.to_dict().items():
                if isinstance(value, torch.Tensor):
                    assert torch.equal(home(one[key]), value), key


def links(graph: Any, ends: torch.Tensor, label: torch.Tensor, when: torch.Tensor) -> halohop.LinkNeighborLoader:
    how = {"edge_label": label, "edge_label_time": when, "time_attr": "edge_t"}
    return halohop.LinkNeighborLoader(graph, [3, 2], ends, **how, batch_size=8, run="inline", seed=1)
