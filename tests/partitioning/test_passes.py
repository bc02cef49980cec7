"""The same bytes of every file, in whatever budget and by however many workers, as halohop has always written them."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from halohop.partitioning import building, layout
from halohop.partitioning.build import partition
from halohop.partitioning.layout import Memory
from halohop.partitioning.report import Report
from halohop.store.disk import map_part, read_manifest
from halohop.store.tables import GraphTables
from tests.support.featured import featured_tables, random_parts

# What halohop wrote of `featured_tables` before builds went in passes: see `digest`.
_DIGESTS = """
916b95e8569bcf7a e96eeb81c9586816 dd1e7d240ccd38de 90b4656fe10cb3af 13e1411968deda34 7b6b5244d97cc8bd 155ae0852f7c4906
5c88806fec42f15a fa51ae0fd6fd626b 1920ab2120b21181 337c86accd898500 25b86f7eff237ee8 3c87fe7f0a0dd9b1 fb3de7d0e7c90687
b9fcd1a563e05daf b787231386084823 32d54ff838ce9923 83047588db615519 3529917a87046c30 68375cec3a4bc43b 717c6bf1039bc173
2aca35a39c302aab 4ecf16a969ed7b0c 88fd8dd4334a9ac6 e4dc6fd26115dbef 067a73f94ed9e1ea 364c1cbe3a8266ad fc7e6d032c15ceb7
0e587869bbdb0f79 747b56135d7f0d13 02b05595ecb2d178 e7eb885c4728951d 4b4ee09046c0c35e 02067f54e5a51dbb 8b3625f312d93b60
5ab5c172624f5692 ce22470b15473104 776468b29c0620ee 432bd50e7a725308 016908b66e97b934 f5772ee4d9465ca8 7d3e745848f49dcc
005edb827434c0c4 7d2018aeba844864 dc12e7ad8993b736 65c1f85a6c186e92 cf2d5e2cbb970aab 021ad1588880c998 59f42ad5e30ea031
78ccfd6b9add4a40 f28e7bb62296a2d0 e64c725b61d81250 3c40dbc87b8b8e03 a36ac1fc801e1ad7 722a9afd9b032b27 259a112f2cfe5b87
97654222fe57a59f 916b12bb50e65818 997e8bea7a81ad02 5732042526ee7008
"""
GOLDEN = _DIGESTS.split()


def digest(out: Path) -> str:
    """Of every file by its checksums, and of all that the manifest says of the graph."""
    manifest = read_manifest(out)
    tables = (*manifest.schema.nodes.items(), *manifest.schema.edges.items())
    plain = {
        "files": manifest.files,
        "bounds": [[repr(key), bounds] for key, bounds in (*manifest.node_bounds.items(), *manifest.edge_bounds.items())],
        "asc": [[repr(key), names] for key, names in manifest.ascending.items()],
        "halo": [[repr(key), [[n, c.dtype, c.shape] for n, c in specs.items()]] for key, specs in manifest.halo.items()],
        "report": manifest.report,
        "schema": [
            [repr(key), spec.count, [[n, c.dtype, c.shape, c.sparse, c.names] for n, c in spec.columns.items()]]
            for key, spec in tables
        ],
    }
    data = msgspec.json.encode(msgspec.to_builtins(plain), order="sorted")
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def build(seed: int, out: Path, tables: GraphTables | None = None, **options: object) -> Report:
    num_parts = (1, 2, 3, 5)[seed % 4]
    tables = tables or featured_tables(seed)
    return partition(
        tables,
        out,
        num_parts=num_parts,
        method=random_parts(tables, num_parts, seed),
        halo=((), ("raw_id",), ("seen", "raw_id"))[seed % 3],
        edge_dir=("in", "out")[seed // 2 % 2],  # type: ignore[arg-type]
        **options,  # type: ignore[arg-type]
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Makes builds take files in so little memory, with steps of so few bytes."""

    def use(room: int, step_bytes: int, threads: int = 1) -> None:
        monkeypatch.setattr(building, "plan_memory", lambda *given, **more: Memory(threads=threads, room=room))
        monkeypatch.setattr(building, "is_small", lambda *given: False)
        monkeypatch.setattr(layout, "_STEP_BYTES", step_bytes)

    return use


def test_in_memory_the_bytes_are_what_they_were(tmp_path: Path) -> None:
    for seed in range(60):
        build(seed, tmp_path / "out", overwrite=seed > 0)
        assert digest(tmp_path / "out") == GOLDEN[seed], seed


@pytest.mark.parametrize(("room", "step_bytes"), [(300, 400), (3000, 2000), (100_000, 10_000)])
@pytest.mark.parametrize("seed", [5, 10, 18, 31, 33, 47])
def test_in_any_budget_the_bytes_are_the_same(
    tmp_path: Path, small: Callable[[int, int], None], seed: int, room: int, step_bytes: int
) -> None:
    small(room, step_bytes)
    build(seed, tmp_path / "out")
    assert digest(tmp_path / "out") == GOLDEN[seed]
    manifest = read_manifest(tmp_path / "out")
    for part in range(manifest.num_parts):
        map_part(tmp_path / "out", manifest, part, verify=True)
    assert not (tmp_path / "out.build").exists()
