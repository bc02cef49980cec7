import gzip
import re
from pathlib import Path

import pytest
import torch

from halohop.datasets import read_temporal
from halohop.datasets.links import EdgeSplit, LinkTables
from halohop.errors import IncompleteDatasetError, InputError, SchemaError
from halohop.typing import EDGE, NODE

TEN = "# src dst time\n" + "".join(f"{20 + k} {k % 3 + 5}\t{100 - 10 * k}\n" for k in range(10))


def write(folder: Path, text: str | bytes, name: str = "edges.txt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_edges_keep_ids_times_and_the_order_of_the_file(tmp_path: Path) -> None:
    links = read_temporal(write(tmp_path, "9 5 10\n5 7 11  # late\n\n9 -3 10\n-3 8 12\n"), fractions=(0.5, 0.25, 0.25))
    nodes, edges = links.tables.nodes[NODE], links.tables.edges[EDGE]
    assert nodes.raw_id is not None
    assert nodes.raw_id.tolist() == [-3, 5, 7, 8, 9]
    assert (edges.src.tolist(), edges.dst.tolist(), edges.columns["time"].tolist()) == ([4, 4], [1, 0], [10, 10])
    assert edges.columns["time"].dtype == torch.int64
    assert nodes.raw_id[edges.src].tolist() == links.splits["train"].src_raw.tolist() == [9, 9]
    late = links.splits["val"]
    assert (late.src_raw.tolist(), late.dst_raw.tolist(), late.src.tolist(), late.dst.tolist()) == ([5], [7], [1], [2])
    assert late.time is not None
    assert late.time.tolist() == [11]


def test_splits_follow_time_and_not_the_order_of_lines(tmp_path: Path) -> None:
    links = read_temporal(write(tmp_path, TEN), fractions=(0.5, 0.2, 0.2))
    times = {name: split.time.tolist() for name, split in links.splits.items() if split.time is not None}
    assert times == {"train": [50, 40, 30, 20, 10], "val": [70, 60], "test": [90, 80]}
    assert links.tables.edges[EDGE].columns["time"].tolist() == times["train"]
    assert links.tables.nodes[NODE].num_nodes == 13


def test_held_out_edges_come_only_when_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, TEN)
    every = read_temporal(path, fractions=(0.5, 0.2, 0.2), held_out=True).tables.edges[EDGE]
    assert every.columns["time"].tolist() == [90, 80, 70, 60, 50, 40, 30, 20, 10]


def test_reverse_edges_have_the_same_times_and_stay_out_of_the_splits(tmp_path: Path) -> None:
    one, both = (read_temporal(write(tmp_path, TEN), undirected=undirected) for undirected in (False, True))
    there, back = both.tables.edges[EDGE], one.tables.edges[EDGE]
    assert there.src.tolist() == back.src.tolist() + back.dst.tolist()
    assert there.dst.tolist() == back.dst.tolist() + back.src.tolist()
    assert there.columns["time"].tolist() == back.columns["time"].tolist() * 2
    assert [len(split) for split in both.splits.values()] == [len(split) for split in one.splits.values()]


def test_gzip(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(TEN.encode()), "edges.txt.gz")
    assert len(read_temporal(path).splits["train"]) == 7
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"edges\.txt\.gz cannot be read: .*; fetch it again"):
        read_temporal(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3\n4 5\n", ", line 2: '4 5' is not source, destination and time; expected three whole numbers"),
        ("1 2 3\n# note\n1 2 3.5\n", ", line 3: '1 2 3.5' is not"),
        ("1 2 3 4\n1 2 3 4\n", ", line 1: '1 2 3 4' is not"),
        ("src dst time\n1 2 3\n", ", line 1: 'src dst time' is not"),
        ("1,2,3\n", ", line 1: '1,2,3' is not .*read_tables takes CSV"),
        (b"1 2 3\n\xff 2 3\n", ", line 2: .* is not"),
        (f"1 2 3\n1 2 {2**63}\n", ", line 2: a number of .* does not fit 64 bits"),
        ("# nothing\n\n", " holds no edge"),
        ("", " holds no edge"),
        ("1 2 3\n" * 10, ": no entry is left for 'val': 10 entries have 1 different times"),
    ],
)
def test_bad_files_are_named_with_the_remedy(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=f"{re.escape(str(path))}{message}"):
        read_temporal(path)
    with pytest.raises(IncompleteDatasetError, match="absent"):
        read_temporal(tmp_path / "absent.txt")


def test_records_refuse_what_does_not_fit(tmp_path: Path) -> None:
    links = read_temporal(write(tmp_path, TEN))
    one, two = torch.zeros(1, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(InputError, match=r"dst_raw is torch\.int64 of shape"):
        EdgeSplit(src=one, dst=one, src_raw=one, dst_raw=two, relation=one)
    with pytest.raises(InputError, match=r"time is torch\.float32"):
        EdgeSplit(src=one, dst=one, src_raw=one, dst_raw=one, relation=one, time=one.float())
    with pytest.raises(SchemaError, match="not the first of the graph"):
        LinkTables(tables=links.tables, relations=((NODE, "likes", NODE),), splits={})


@pytest.mark.data
def test_real_collegemsg(shared_data: Path) -> None:
    """The counts that SNAP publishes: 1,899 nodes, 59,835 temporal edges, 193 days."""
    links = read_temporal(shared_data / "collegemsg" / "CollegeMsg.txt")
    assert links.tables.nodes[NODE].num_nodes == 1_899
    assert sum(map(len, links.splits.values())) == 59_835
    train, val, test = (split.time for split in links.splits.values())
    assert train is not None
    assert val is not None
    assert test is not None
    assert train.max() < val.min() <= val.max() < test.min()
    assert (int(test.max()) - int(train.min())) // 86_400 == 193
    assert [round(len(split) / 59_835, 3) for split in links.splits.values()] == [0.7, 0.15, 0.15]
    assert torch.equal(links.tables.edges[EDGE].columns["time"], train)
