"""Bugs that were put in on purpose, each where a wrong line would give wrong batches in silence: the tests must find them all."""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One line of a module, what stands there instead, and the test files that find it."""

    module: str
    line: str
    instead: str
    found_by: tuple[str, ...]


MUTATIONS = {
    "draw: by place in the request instead of by node": Mutation(
        module="ops/cpu_sample.py",
        line="        block_streams[filled] = _stream_of(key, raw[i])\n",
        instead="        block_streams[filled] = _stream_of(key, i)\n",
        found_by=("ops/test_sample.py",),
    ),
    "routing: answers go to the wrong questions": Mutation(
        module="cluster/router.py",
        line="            for share, answer in zip(shares[shard], answers, strict=True):\n",
        instead="            for share, answer in zip(shares[shard][::-1], answers, strict=True):\n",
        found_by=("cluster/test_graph.py", "net/test_open.py"),
    ),
    "merge: right for two owners only": Mutation(
        module="ops/rows.py",
        line="        begin += len(words)\n",
        instead="        begin = len(words)\n",
        found_by=("ops/test_rows.py",),
    ),
    "tables: rows that were read ahead may be a step older than asked for": Mutation(
        module="tensors/dist_embedding.py",
        line="        if age > found.staleness:\n",
        instead="        if age > found.staleness + 1:\n",
        found_by=("tensors/test_read_ahead.py",),
    ),
    "tables: a rank goes on before the last steps of a round": Mutation(
        module="optim/rank.py",
        line="        self._change((), seconds=seconds)\n",
        instead="        assert seconds\n",
        found_by=("optim/test_joining.py",),
    ),
    "tables: the join of a model leaves them out": Mutation(
        module="optim/joining.py",
        line='        hook = model.__dict__["join_hook"] = _ModelsHook(model)\n',
        instead="        hook = _ModelsHook(model)\n",
        found_by=("optim/test_joining.py",),
    ),
    "tables: each hook of a join leaves a round": Mutation(
        module="optim/joining.py",
        line="        if self._rank.round == self._round:\n",
        instead="        if self._rank.round >= self._round:\n",
        found_by=("optim/test_joining.py",),
    ),
    "tables: sums of gradients may overflow": Mutation(
        module="tables/plan.py",
        line="    if any(share.huge for share in shares):\n",
        instead="    if not shares:\n",
        found_by=("tables/test_steps.py",),
    ),
    "tables: Ctrl-C cuts a step": Mutation(
        module="tables/owner.py",
        line="                with uninterrupted():  # Ctrl-C, where this is the main thread, would leave a change half done\n",
        instead="                if uninterrupted:\n",
        found_by=("tables/test_steps.py",),
    ),
    "tables: gradients of one row count once": Mutation(
        module="tensors/gradients.py",
        line="        return gid, grads\n",
        instead="        return gid[-1:], grads[-1:]\n",
        found_by=("tensors/test_dist_embedding.py",),
    ),
    "columns: all, whatever is asked for": Mutation(
        module="sampling/columns.py",
        line="return tuple(name for name in known if name in chosen) if chosen else ()\n",
        instead="return tuple(known)\n",
        found_by=("pyg/test_columns.py",),
    ),
    "given columns: rows in the order of the partition": Mutation(
        module="store/given.py",
        line="            return self.rows.index_select(0, places)\n",
        instead="            return self.rows[first : first + count].contiguous()\n",
        found_by=("store/test_given.py",),
    ),
    "locality: a rank makes the batch of its own number, whichever block that is of": Mutation(
        module="loading/seeds.py",
        line="                    slot = self.arrangement.slot(step, self.world)\n",
        instead="                    slot = self.world.rank\n",
        found_by=("loading/test_blocks.py",),
    ),
    "tables: a step is applied as soon as it is whole, in any order": Mutation(
        module="tables/turns.py",
        line="        return place == self.next\n",
        instead="        return True\n",
        found_by=("tables/test_any_order.py",),
    ),
    "tables: a write that comes again is applied again": Mutation(
        module="tables/turns.py",
        line="        return place[1] in self._recent or place[1] <= self._highest - WINDOW\n",
        instead="        return False\n",
        found_by=("tables/test_any_order.py",),
    ),
    "resume: the second time from where the first one began": Mutation(
        module="loading/resume.py",
        line="batches=self._start.batches + self._handed)",
        instead="batches=self._handed)",
        found_by=("loading/test_resume.py",),
    ),
    "fetch: any checksum will do": Mutation(
        module="store/afar/chunks.py",
        line="            if found == chunk.checksum:\n",
        instead="            if found:\n",
        found_by=("store/afar/test_fetching.py",),
    ),
    "upload: what lies there is taken for this data set's": Mutation(
        module="store/afar/uploading.py",
        line="    there = found.files if found.goes_on else {}\n",
        instead="    there = found.files\n",
        found_by=("store/afar/test_uploading.py",),
    ),
    "handshake: any proof will do": Mutation(
        module="transport/handshake.py",
        line="    return text if hmac.compare_digest(mac, ",
        instead="    return text if mac or hmac.compare_digest(mac, ",
        found_by=("transport/test_handshake.py",),
    ),
    "identity: any data set will do": Mutation(
        module="transport/handshake.py",
        line="return self.dataset == expected.dataset and ",
        instead="return ",
        found_by=("transport/test_identity.py",),
    ),
    "padding: empty edges at the last real node of a hop": Mutation(
        module="sampling/padding.py",
        line="every[begin + count : end]",
        instead="every[begin + max(count - 1, 0) : end]",
        found_by=("pyg/test_padding.py",),
    ),
    "dedup: the first seed is found again as a new node": Mutation(
        module="ops/cpu_relabel.py",
        line="        entry = u64(table[v])\n        new = entry < base\n",
        instead="        entry = u64(table[v])\n        new = entry <= base\n",
        found_by=("ops/test_relabel.py",),
    ),
    "times: an edge of the seed's own moment is no past": Mutation(
        module="ops/cpu_eligible.py",
        line="u64(time <= high)",
        instead="u64(time < high)",
        found_by=("ops/test_eligible.py", "testing/test_leaks.py"),
    ),
    "weights: an entry is looked for as if its block were the first": Mutation(
        module="ops/cpu_weighted.py",
        line="before = sums[begin + block - _ONE] if block > _ZERO else 0.0",
        instead="before = 0.0 * sums[begin + block]",
        found_by=("ops/test_weight_sums.py",),
    ),
    "weights: a total that is cut takes the sum of the whole block": Mutation(
        module="ops/cpu_weighted.py",
        line="if length == whole:",
        instead="if length <= whole:",
        found_by=("ops/test_weight_sums.py",),
    ),
    "weights on a GPU: what earlier numbers have drawn is drawn again": Mutation(
        module="ops/gpu_weighted.py",
        line="earlier < got[:, None]",
        instead="earlier < 0 * got[:, None]",
        found_by=("ops/test_gpu_weighted.py",),
    ),
    "weights on a GPU: lists are summed anew too soon": Mutation(
        module="ops/gpu_weighted.py",
        line="2 * most + (length >> 4)",
        instead="2 * most",
        found_by=("ops/test_gpu_weighted.py",),
    ),
    "codec: bytes of a tensor that is not in one piece": Mutation(
        module="transport/messages.py",
        line='tensor.device.type != "cpu" or not tensor.is_contiguous() or ',
        instead='tensor.device.type != "cpu" or ',
        found_by=("transport/test_messages.py",),
    ),
    "steps: those of the living are taken, too": Mutation(
        module="partitioning/steps/workers.py",
        line="                if owner == self.name or self._is_alive(owner):\n",
        instead="                if owner == self.name:\n",
        found_by=("partitioning/steps/test_workers.py",),
    ),
    "steps: a result is kept that another worker is to give": Mutation(
        module="partitioning/steps/steps.py",
        line="            if self._worker.owns(file):",
        instead="            if file:",
        found_by=("partitioning/steps/test_steps.py",),
    ),
    "steps: done once more, because its owner has ended": Mutation(
        module="partitioning/steps/steps.py",
        line="                    if self._file(number).exists():",
        instead="                    if not number + 1:",
        found_by=("partitioning/steps/test_steps.py",),
    ),
    "rules: the mean of the squares forgets as fast as that of the gradients": Mutation(
        module="ops/cpu_rules.py",
        line="(grad * grad - square[row + c]) * keep2",
        instead="(grad * grad - square[row + c]) * keep1",
        found_by=("ops/test_rules.py",),
    ),
    "rules: gradients of equal rows, the last rank's first": Mutation(
        module="tables/rules.py",
        line="ops.unite(gid, grads,",
        instead="ops.unite(gid[::-1], grads[::-1],",
        found_by=("tables/test_rules.py",),
    ),
    "beginnings: by place in the partition instead of by id": Mutation(
        module="tables/beginnings.py",
        line="else ops.gather_rows(self.raw, lid)",
        instead="else lid",
        found_by=("tables/test_beginnings.py",),
    ),
    "verify: what was changed since counts as read": Mutation(
        module="store/verify.py",
        line="    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns\n",
        instead="    return found.st_ino, found.st_size, found.st_mtime_ns\n",
        found_by=("store/test_verify.py",),
    ),
}


def mutated(mutation: Mutation) -> str:
    """The module's text with the mutation in it."""
    text = (ROOT / "src/halohop" / mutation.module).read_text()
    assert text.count(mutation.line) == 1, f"{mutation.module} has changed: give its mutation here another line"
    return text.replace(mutation.line, mutation.instead)


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_mutated_is_there(name: str) -> None:
    mutation = MUTATIONS[name]
    compile(mutated(mutation), mutation.module, "exec")
    assert [file for file in mutation.found_by if not (ROOT / "tests" / file).is_file()] == []


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the machine code of its kernels; what is mutated in it is compiled again."""
    folder = tmp_path_factory.mktemp("mutated") / "src"
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("*.pyc"))
    return folder


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_suite_finds(name: str, copy: Path) -> None:
    """The same tests pass without the mutation and fail with it; both runs import the copy."""
    mutation = MUTATIONS[name]
    module = copy / "halohop" / mutation.module
    assert run(mutation.found_by, copy) == pytest.ExitCode.OK
    before = module.read_text()
    module.write_text(mutated(mutation))
    try:
        assert run(mutation.found_by, copy) == pytest.ExitCode.TESTS_FAILED, f"no test fails with this bug: {name}"
    finally:
        module.write_text(before)


def run(files: tuple[str, ...], source: Path) -> int:
    """How pytest ends with these files, in a process of its own that imports halohop from `source`."""
    check = (
        f"import halohop, pytest, sys; assert halohop.__file__.startswith({str(source)!r}); sys.exit(pytest.main(sys.argv[1:]))"
    )
    options = ["--exitfirst", "--quiet", "-p", "no:cacheprovider", "-n", "0"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with tempfile.TemporaryDirectory(prefix="hh-", dir="/tmp") as short:  # names of sockets have 107 letters at most
        done = subprocess.run(
            [sys.executable, "-B", "-c", check, *options, "--basetemp", f"{short}/t", *(f"tests/{file}" for file in files)],
            cwd=ROOT,
            env=env | {"PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    print(done.stdout, done.stderr)
    return done.returncode
