"""What the README promises is true. A claim that is not true yet is `xfail(strict=True)` and names what is missing."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from docs.site.blocks import blocks

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = PROJECT["urls"]["Repository"]
OLD_EXTRAS = {"encrypt": "tls", "sets": "datasets", "tables": "io"}


def test_it_is_short() -> None:
    assert len(README.split()) <= 700
    assert len(README.splitlines()) <= 130
    assert [line for block in blocks(README) for line in block.text.splitlines() if len(line) > 79] == []


def test_its_links_are_whole_and_lead_to_files() -> None:
    """A package index shows the README without the files around it."""
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert [link for link in links if not link.startswith("https://")] == []
    raw = REPOSITORY.replace("github.com", "raw.githubusercontent.com") + "/main/"
    files = [link.removeprefix(raw).removeprefix(f"{REPOSITORY}/blob/main/") for link in links]
    files = [file for file in files if not file.startswith("https://")]
    assert len(files) >= 10
    assert [file for file in files if not (ROOT / file.partition("#")[0]).is_file()] == []
    sections = [file.split("#") for file in files if "#" in file]
    assert ["docs/guide/training.md", "files-of-predictions"] in sections
    assert [(file, name) for file, name in sections if name not in anchors((ROOT / file).read_text())] == []
    assert (ROOT / ".github" / "workflows" / "ci.yml").is_file()  # whose badge it shows


def anchors(page: str) -> list[str]:
    return [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", page, re.MULTILINE)]


def test_versions_are_those_of_the_package() -> None:
    pythons = sorted(line.rpartition(".")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line))
    assert f"Python 3.{pythons[0]} to 3.{pythons[-1]}" in README
    assert {"torch>=2.6", "torch-geometric>=2.6"} <= set(PROJECT["dependencies"])
    assert "torch and PyG 2.6 or newer" in README
    (version,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "src/halohop/__init__.py").read_text(), re.MULTILINE)
    assert f"version {version}" in README


def test_extras_are_those_of_the_package() -> None:
    extras = PROJECT["optional-dependencies"]
    table = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.+) \|$", README, re.MULTILINE)
    named = {name for names, _ in table for name in re.findall(r"\w+", names)}
    assert named == set(extras) - {"docs", "dev"} - set(OLD_EXTRAS)
    (every,) = (re.findall(r"\w+", each.partition("[")[2]) for each in extras["all"])
    (left_out,) = (set(re.findall(r"`(\w+)`", about)) for names, about in table if names == "`all`")
    assert set(every) == named - left_out - {"all"}


@pytest.mark.parametrize("extra", re.findall(r"\w+", PROJECT["optional-dependencies"]["all"][0].partition("[")[2]))
def test_everybody_gets_only_extras_that_are_used(extra: str) -> None:
    """An import of one of its packages, or the name of a package whose library is loaded."""
    modules = {"pyyaml": "yaml", "cmeel_metis": "cmeel-metis"}
    needed = [re.split(r"[>=;\[]", each)[0].replace("-", "_") for each in PROJECT["optional-dependencies"][extra]]
    names = "|".join(modules.get(each, each) for each in needed)
    used = re.compile(rf'^\s*(?:import|from) (?:{names})\b|"(?:{names})"', re.MULTILINE)
    assert any(used.search(file.read_text()) for file in (ROOT / "src/halohop").rglob("*.py"))


def test_old_names_of_extras_work_and_are_named_nowhere() -> None:
    extras = PROJECT["optional-dependencies"]
    assert {old: extras[old] for old in OLD_EXTRAS} == {old: [f"halohop[{new}]"] for old, new in OLD_EXTRAS.items()}
    assert set(OLD_EXTRAS.values()) <= set(extras)
    lists = re.compile(r"(?:\bhalohop|['\"]\.)\[([\w,]+)\]|\bEXTRAS=([\w,]+)")
    folders = (
        "src/halohop/**/*.py",
        "docs/**/*.md",
        "examples/**/*.md",
        "docker/*",
        ".github/**/*.yml",
        ".ci/*",
        "*.md",
        "Makefile",
    )
    named = {
        (file.name, name)
        for pattern in folders
        for file in ROOT.glob(pattern)
        if file.is_file()
        for found in lists.findall(file.read_text())
        for name in "".join(found).split(",")
    }
    assert {name for _, name in named} >= {"io", "tls", "datasets", "metis"}
    assert {each for each in named if each[1] not in set(extras) - set(OLD_EXTRAS)} == set()


def test_the_sample_prints_what_is_shown(tmp_path: Path) -> None:
    sample, shown = (block.text for block in blocks(README) if block.language in ("python", "text"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", sample], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert (done.stdout, done.returncode) == (shown, 0), done.stderr


@pytest.mark.parametrize(
    ("page", "claim"), [("sampling", r"sampling is (\d+) to (\d+) times"), ("loader", r"finished batches (\d+) to (\d+) times")]
)
def test_figures_are_those_of_a_published_run(page: str, claim: str) -> None:
    """All comparisons with DGL of a page, with any number of threads and any allocator, are in the range."""
    text = (ROOT / "docs" / "benchmarks" / f"{page}.md").read_text()
    ratios = [float(ratio) for ratio in re.findall(r"^\| halohop, expand=all.* / DGL.*? \| ([\d.]+) \|", text, re.MULTILINE)]
    least, most = map(int, re.search(claim, README).groups())  # type: ignore[union-attr]
    assert len(ratios) >= 4
    assert (least, most) == (round(min(ratios)), round(max(ratios)))
    assert page != "loader" or text.splitlines()[2][:10] in README


def test_partitions_are_mapped_from_disk(tmp_path: Path) -> None:
    import halohop
    from halohop.testing.graphs import ring

    halohop.partition(ring(40), tmp_path / "parts", num_parts=2, method="random")
    with halohop.open(tmp_path / "parts"):
        assert str(tmp_path) in Path("/proc/self/maps").read_text()


def waits_without_deadline() -> list[str]:
    """Calls of launchers that wait for another thread, process or host, and have no time limit."""
    found = []
    for path in sorted((ROOT / "src" / "halohop" / "launch" / "jobs").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            bare = isinstance(node, ast.Call) and not node.args and not node.keywords
            if bare and getattr(node.func, "attr", "") in ("wait", "join", "get", "result"):
                found.append(f"{path.parent.name}/{path.name}: {ast.unparse(node)}")
    return found


BOUNDED = {
    "host/runner.py: self._inbox.get()": "a thread puts None there when the launcher is silent for 6 s",
    "host/runner.py: process.wait()": "in a thread; whoever ends the job kills the process",
    "host/held_runner.py: self._process.wait()": "it was killed",
    "k8s/service.py: runner.wait()": "in a thread; the runner ends where the launcher is silent for 6 s",
    "k8s/way.py: self._channel.submit(messages.Start(), seconds=self._patience).result()": "the call has a deadline",
    "k8s/way.py: self._channel.submit(request, seconds=_ANSWER_S, once=True).result()": "the call has a deadline",
    "k8s/way.py: future.result()": "the call has a deadline",
    "ray/graph_server.py: self._closed.wait()": "a server lives as long as its job",
    "crew/remote_runner.py: self._started.result()": "in a thread; a thread sets the result, or the error of a lost connection",
    "crew/remote_runner.py: self._calls.wait()": "in a thread; fails where the connection is lost",
    "crew/remote.py: self._answers.get()": "in a thread; `Crew.together` gives up after STUCK_S, and a lost host is an answer",
    "crew/remote.py: self._process.wait()": "ssh or srun was killed",
    "crew/watching.py: self._crew.news.get()": "the queue is not empty",
}
"""Calls that look as if they could wait forever, and what ends them."""


def test_every_wait_has_a_deadline() -> None:
    assert {*waits_without_deadline()} == {*BOUNDED}


def test_scripts_of_others_need_another_import_only() -> None:
    """tests/dgl/test_scripts.py and tests/glt/test_scripts.py run them."""
    for name, library in (("dgl", "dgl"), ("glt", "graphlearn_torch")):
        scripts = list((ROOT / "examples" / name).rglob("*.py"))
        assert len(scripts) >= 3
        imports = [line for path in scripts for line in path.read_text().splitlines() if re.match(r"(import|from) ", line)]
        assert [line for line in imports if re.match(rf"(import|from) {library}\b", line)] == []
        assert any(f"halohop.{name}" in line for line in imports)
