"""What a release consists of: the checks find what is wrong with it, and the workflow that publishes it holds no secret."""

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import halohop

ROOT = Path(__file__).parents[1]
ABOUT = "halohop-1.0.dist-info"
METADATA = "Version: 1.0\nSummary: s\nRequires-Python: >=3.11\nLicense-Expression: Apache-2.0\n"
PACKAGE = {"halohop/__init__.py", "halohop/py.typed"}
WHEEL = {*PACKAGE, f"{ABOUT}/METADATA", f"{ABOUT}/licenses/LICENSE"}


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_release", ROOT / ".ci" / "check_release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_stands_in_one_place(check: ModuleType) -> None:
    assert check.version() == halohop.__version__
    assert not re.search(r"^version\s*=", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)


def test_the_changelog_has_a_section_for_this_version(check: ModuleType) -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    released = re.fullmatch(r"\d+\.\d+\.\d+", halohop.__version__)
    assert (f"\n## [{halohop.__version__}] - 20" if released else "\n## [Unreleased]\n\n###") in text
    assert list(check.changelog_faults("# C\n\n## [Unreleased]\n\n## [1.0] - 2026-11-22\n\n- x\n", "1.0")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("## [Unreleased]\n\n- news\n\n## [1.0] - 2026-11-22\n", "not an empty"),
        ("## [1.0] - 2026-11-22\n", "not an empty"),
        ("## [Unreleased]\n\n## [1.0]\n", "no section"),
        ("## [Unreleased]\n\n## [1.00] - 2026-11-22\n", "no section"),
    ],
)
def test_faults_of_a_changelog(check: ModuleType, text: str, fault: str) -> None:
    (found,) = check.changelog_faults(text, "1.0")
    assert fault in found


def test_a_wheel_without_fault(check: ModuleType) -> None:
    assert list(check.wheel_faults(WHEEL, METADATA, PACKAGE, "1.0")) == []


@pytest.mark.parametrize(
    ("names", "metadata", "fault"),
    [
        (WHEEL - {"halohop/py.typed"}, METADATA, "lacks halohop/py.typed"),
        (WHEEL - {f"{ABOUT}/licenses/LICENSE"}, METADATA, "LICENSE"),
        (WHEEL | {"tests/test_x.py"}, METADATA, "has tests/test_x.py"),
        (WHEEL, METADATA.replace("1.0", "0.9"), "says version 0.9"),
        (WHEEL, METADATA.replace("Requires-Python", "X"), "no Requires-Python"),
    ],
)
def test_faults_of_a_wheel(check: ModuleType, names: set[str], metadata: str, fault: str) -> None:
    assert fault in "\n".join(check.wheel_faults(names, metadata, PACKAGE, "1.0"))


def test_faults_of_a_source_distribution(check: ModuleType) -> None:
    names = {f"halohop-1.0/{name}" for name in (*check.AROUND, *(f"src/{path}" for path in PACKAGE))}
    assert list(check.sdist_faults(names, PACKAGE, "1.0")) == []
    (more,) = check.sdist_faults(names | {"halohop-1.0/benchmarks/x.py"}, PACKAGE, "1.0")
    assert "benchmarks/x.py" in more
    (fewer,) = check.sdist_faults(names - {"halohop-1.0/LICENSE"}, PACKAGE, "1.0")
    assert "lacks halohop-1.0/LICENSE" in fewer


def audit(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": packages})


def test_vulnerabilities_end_a_release_and_a_registry_that_is_not_reached_does_not(
    check: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    sound: dict[str, object] = {"name": "numpy", "version": "2.4.6", "vulns": []}
    unknown: dict[str, object] = {"name": "torch", "skip_reason": "Dependency not found on PyPI: torch (2.13.0)"}
    bad = {"name": "rich", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"]}]}
    assert list(check.audit_faults(0, audit(sound, unknown), "")) == []
    said = "pip-audit skipped 1 of 2 packages, the first because: Dependency not found on PyPI: torch (2.13.0)\n"
    assert capsys.readouterr().out == said
    found = list(check.audit_faults(1, audit(sound, bad), ""))
    assert found == ["constraints.txt: rich==1.0 has PYSEC-1; fixed in 1.1, 2.0"]
    for line in (
        "ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed\nERROR:pip_audit._cli:Tip: try another service",
        "Traceback (most recent call last):\nrequests.exceptions.ProxyError: HTTPSConnectionPool(host='pypi.org', port=443)",
    ):
        assert list(check.audit_faults(1, "", line)) == []
        assert capsys.readouterr().out.startswith("skipped pip-audit: ")
    for code, error in ((2, "error: unrecognized arguments"), (1, "No module named pip_audit"), (1, "")):
        (fault,) = check.audit_faults(code, "", error)
        assert f"exit status {code}" in fault


def test_the_workflow_publishes_with_a_short_lived_identity_and_no_secret() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets." not in text
    assert "password" not in re.sub(r"#.*", "", text)
    build, publish = text.split("\n  publish:\n")
    assert "id-token" not in build
    assert re.search(r"environment:\n\s+name: pypi\n", publish)
    assert "id-token: write" in publish
    uploaded = re.search(r"name: dist\n\s+path: \|\n((?:\s+dist/\S+\n)+)", build)
    assert uploaded is not None
    assert uploaded.group(1).split() == ["dist/*.whl", "dist/*.tar.gz"]  # PyPI refuses other files, such as an SBOM
    assert "uses: pypa/gh-action-pypi-publish@" in publish


def test_workflows_pin_actions_by_hash_and_make_goals_that_exist() -> None:
    text = "".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    for goal in re.findall(r"run: make (\S+)", text):
        assert re.search(rf"^{goal}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    used = re.findall(r"uses: (.+)", text)
    assert len(used) > 10
    assert [each for each in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v[\d.]+", each)] == []


def test_metadata_says_who_where_and_for_which_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["authors"] == [{"name": "The halohop developers"}]
    assert {"Documentation", "Repository", "Issues", "Changelog"} <= set(project["urls"])
    repository = project["urls"]["Repository"]
    cited = (ROOT / "CITATION.cff").read_text()
    assert all(
        f"{key}: {value}" in cited for key, value in {"repository-code": f'"{repository}"', "license": project["license"]}.items()
    )
    resolved = re.search(r"^PYTHONS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert resolved
    promised = {line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r"Python :: 3\.\d+$", line)}
    assert promised == set(resolved[1].split())
