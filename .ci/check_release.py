"""Checks the files of a release: `python .ci/check_release.py dist`, after `python -m build`; `make release` does both.

The wheel and the source distribution hold halohop and nothing else, with one version, which the changelog has a dated section of.
No version in constraints.txt may have a known vulnerability. Then the wheel is installed into bare environments, with the
newest and the oldest versions of what it needs, and trains there. The components of the newest are written into dist/ as an SBOM.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator, Set
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).parents[1]
AROUND = {"PKG-INFO", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", ".gitignore"}
"""What a source distribution has beside the package."""


def version() -> str:
    """The version of the source: the one place where it stands."""
    (found,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "src/halohop/__init__.py").read_text(), re.MULTILINE)
    return str(found)


def source_files() -> set[str]:
    """The files of the package, as paths below src/."""
    files = (path for path in (ROOT / "src/halohop").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / "src").as_posix() for path in files}


def wheel_faults(names: Set[str], metadata: str, expected: Set[str], number: str) -> Iterator[str]:
    """What is wrong with a wheel.

    Args:
        names: the files in it.
        metadata: its METADATA.
        expected: the files of the package.
        number: the version.
    """
    about = f"halohop-{number}.dist-info/"
    package = {name for name in names if not name.startswith(about)}
    yield from (f"the wheel lacks {name}" for name in sorted(expected - package))
    yield from (f"the wheel has {name}, which is no file of src/" for name in sorted(package - expected))
    yield from (f"the wheel lacks {name}" for name in (f"{about}licenses/LICENSE", "halohop/py.typed") if name not in names)
    fields = message_from_string(metadata)
    yield from (
        f"its metadata has no {name}" for name in ("Summary", "Requires-Python", "License-Expression") if name not in fields
    )
    if fields["Version"] != number:
        yield f"its metadata says version {fields['Version']}, the source {number}"


def sdist_faults(names: Set[str], expected: Set[str], number: str) -> Iterator[str]:
    """What is wrong with a source distribution that holds the files `names`."""
    top = f"halohop-{number}/"
    wanted = {top + name for name in (*AROUND, *(f"src/{name}" for name in expected))}
    yield from (f"the source distribution lacks {name}" for name in sorted(wanted - names))
    yield from (f"the source distribution has {name}" for name in sorted(names - wanted))


def changelog_faults(text: str, number: str) -> Iterator[str]:
    """What a changelog lacks for the release `number`: a dated section, below an empty one for what comes next."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    if not sections or sections[0].strip() != "[Unreleased]":
        yield "CHANGELOG.md: its first section is not an empty [Unreleased]"
    if not any(re.match(rf"\[{re.escape(number)}\] - \d{{4}}-\d\d-\d\d\n", section) for section in sections):
        yield f"CHANGELOG.md: no section ## [{number}] - YYYY-MM-DD"


def audit_faults(code: int, output: str, errors: str) -> Iterator[str]:
    """Vulnerabilities that pip-audit found. Prints why packages were not audited.

    Args:
        code: the exit status of pip-audit.
        output: its standard output, JSON.
        errors: its standard error.
    """
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        lines = errors.strip().splitlines() or ["no output"]
        lost = [
            line
            for line in lines
            if re.search(r"connect to PyPI|not redirecting|exceptions\.\w*(Connection|Proxy|SSL|HTTP|Timeout)", line)
        ]
        if code == 1 and lost:
            print(f"skipped pip-audit: {lost[-1]}", flush=True)
        else:
            yield f"pip-audit failed with exit status {code}: {lines[-1]}"
        return
    skipped = [package["skip_reason"] for package in packages if "skip_reason" in package]
    if skipped:
        print(f"pip-audit skipped {len(skipped)} of {len(packages)} packages, the first because: {skipped[0]}", flush=True)
    for package in packages:
        for fault in package.get("vulns", ()):
            fixed = ", ".join(fault["fix_versions"]) or "no version"
            yield f"constraints.txt: {package['name']}=={package['version']} has {fault['id']}; fixed in {fixed}"


def audited(constraints: Path) -> Iterator[str]:
    """Known vulnerabilities of the versions in a file, see `audit_faults`."""
    audit = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    done = subprocess.run([*audit, "-r", str(constraints)], capture_output=True, text=True, timeout=600, check=False)
    yield from audit_faults(done.returncode, done.stdout, done.stderr)


def run_bare(wheel: Path, constraints: Path, torch: str | None, sbom: Path | None = None) -> None:
    """Installs the wheel into an environment of its own, and trains there.

    Args:
        wheel: the wheel.
        constraints: the versions of what it needs.
        torch: another version of torch than the one that stands there.
        sbom: a file for the components of this environment.
    """
    about = ["--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--output-reproducible", "--output-file", sbom]
    with tempfile.TemporaryDirectory(prefix="halohop-release-") as place:
        folder = Path(place)
        given = constraints.read_text()
        pinned = re.sub(r"^torch==.*$", f"torch=={torch}", given, flags=re.MULTILINE) if torch else given
        (folder / "constraints.txt").write_text(pinned)
        venv.create(folder / "venv", with_pip=True)
        python, halohop = folder / "venv/bin/python", folder / "venv/bin/halohop"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        quiet = ["--quiet", "--disable-pip-version-check"]
        for command in (
            [python, "-m", "pip", "install", *quiet, "-c", folder / "constraints.txt", wheel],
            [python, "-m", "pip", "check", *quiet],
            *([[sys.executable, "-m", "cyclonedx_py", "environment", *about, python]] if sbom else ()),
            [halohop, "--version"],
            [halohop, "train", "synthetic:tiny", "--epochs", "1", "--fanout", "4,4", "--out", "run"],
        ):
            print("$", *(str(word).replace(f"{folder}/", "") for word in command), flush=True)
            done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, timeout=1800, check=False)
            if done.returncode:
                sys.exit(f"with {constraints.name}: exit status {done.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--torch", help="the torch of the bare environments, where the index has no other for this machine")
    given = parser.parse_args()
    number, expected = version(), source_files()
    wheel = given.dist / f"halohop-{number}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as file:
        metadata = file.read(f"halohop-{number}.dist-info/METADATA").decode()
        faults = [*wheel_faults(set(file.namelist()), metadata, expected, number)]
    with tarfile.open(given.dist / f"halohop-{number}.tar.gz") as archive:
        faults += sdist_faults({member.name for member in archive if member.isfile()}, expected, number)
    faults += audited(ROOT / "constraints.txt")
    faults += changelog_faults((ROOT / "CHANGELOG.md").read_text(), number)
    if faults:
        sys.exit("\n".join(faults))
    sbom = given.dist.absolute() / f"halohop-{number}.cdx.json"
    run_bare(wheel.absolute(), ROOT / "constraints.txt", given.torch, sbom)
    components = json.loads(sbom.read_text())
    components["metadata"]["component"]["version"] = number  # pyproject.toml has none
    sbom.write_text(json.dumps(components, indent=2))
    run_bare(wheel.absolute(), ROOT / "constraints-oldest.txt", given.torch)
    print(f"halohop {number} is ready: {wheel.name}, its source distribution and {sbom.name}, in {given.dist}/")


if __name__ == "__main__":
    main()
