"""The image of a container: its own commands make what runs without root, and where nothing can be written."""

import os
import platform
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import halohop
from halohop.ops import cpu_kept
from halohop.testing.graphs import ring
from tests.support.deadlines import within

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docker" / "Dockerfile"
KNOWN = {"ARG", "FROM", "COPY", "RUN", "ENV", "WORKDIR", "USER", "ENTRYPOINT"}

MISSES = """
import sys
from halohop import ops
from halohop.ops import cpu_index, cpu_sample
lines = []
ops.warm_up(lines.append)
stats = [value.stats for module in (cpu_index, cpu_sample) for value in vars(module).values() if hasattr(value, "stats")]
print(sum(sum(each.cache_misses.values()) for each in stats), sum(sum(each.cache_hits.values()) for each in stats), *lines)
"""

OPT = 'mount --bind "$0" /opt; mount --bind "$1" /opt/others'
"""Shows a folder as /opt, and in it the modules of this environment, which may lie in a folder that the image does not see."""

OTHERS = str(Path(pytest.__file__).parents[1])


def instructions() -> list[tuple[str, str]]:
    """Instruction and arguments of each line."""
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    found = re.split(r"\n(?=[A-Z]+ )", "\n".join(lines).replace("\\\n", ""))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in found]


def stages() -> list[list[tuple[str, str]]]:
    made: list[list[tuple[str, str]]] = []
    for instruction in instructions():
        if instruction[0] == "FROM":
            made.append([])
        if made:
            made[-1].append(instruction)
    return made


def environment(stage: list[tuple[str, str]]) -> dict[str, str]:
    """What ENV of a stage sets, with its own ARG."""
    values = dict(text.split("=", 1) for name, text in stage if name == "ARG")
    return {
        key: re.sub(r"\$\{?(\w+)\}?", lambda match: values.get(match[1], match[0]), value.strip('"'))
        for name, text in stage
        if name == "ENV"
        for key, value in (pair.split("=", 1) for pair in text.split())
    }


def test_it_is_well_formed_and_ends_without_root():
    assert {name for name, _ in instructions()} <= KNOWN
    build, final = stages()
    users = [text for name, text in final if name == "USER"]
    assert users
    assert int(users[-1].split(":")[0]) > 0
    assert not [text for name, text in final if name == "RUN"]
    kernels = {name: value for name, value in environment(final).items() if name.startswith("NUMBA")}
    assert kernels == environment(build)
    assert kernels["NUMBA_CPU_NAME"] in cpu_kept._LEVELS
    assert (kernels["NUMBA_CPU_FEATURES"], kernels["NUMBA_CACHE_DIR"]) == ("", "/opt/kernels")


def test_what_it_copies_is_there_and_reaches_the_builder():
    ignored, *kept = (ROOT / "docker" / "Dockerfile.dockerignore").read_text().split()
    assert ignored == "*"
    for _, text in (each for each in stages()[0] if each[0] == "COPY"):
        for name in text.split()[:-1]:
            assert (ROOT / name).exists()
            assert f"!{name}" in kept


@pytest.fixture(scope="module")
def opt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder /opt of the image, made by the file's own commands; what pip would install is linked and copied."""
    if platform.machine() != "x86_64" or os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv"))):
        pytest.skip("playing an image needs root, unshare and setpriv, on x86-64")
    build, _ = stages()
    folder = tmp_path_factory.mktemp("image") / "opt"
    venv.create(folder / "halohop", symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "halohop/lib" / version / "site-packages"
    (site / "others.pth").write_text("/opt/others\n")
    (folder / "others").mkdir()
    shutil.copytree(Path(halohop.__file__).parent, site / "halohop", ignore=shutil.ignore_patterns("__pycache__"))
    _, *commands = [text for name, text in build if name == "RUN"]
    for command in commands:
        played = ["unshare", "--mount", "sh", "-ec", f'{OPT}; eval "$2"', str(folder), OTHERS, command]
        env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), **environment(build)}
        result = subprocess.run(played, env=env, capture_output=True, text=True, timeout=500)
        assert result.returncode == 0, result.stderr
    return folder


READ_ONLY = f"""
{OPT}; mount --bind "$2" /mnt; mount -t tmpfs none /tmp
mount -o remount,bind,ro /opt; mount -o remount,bind,ro /
shift 2; exec setpriv --reuid=10001 --regid=10001 --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search "$@"
"""
"""As user 10001, who may read what is only root's here, such as the interpreter, and write to /tmp alone."""


def in_image(opt: Path, shared: Path, *words: str) -> subprocess.Popen[str]:
    """Runs the image's Python; `shared` is /mnt."""
    command = ["unshare", "--mount", "sh", "-ec", READ_ONLY, str(opt), OTHERS, str(shared), "/opt/halohop/bin/python", *words]
    env = environment(stages()[1]) | {"PATH": os.environ["PATH"], "HALOHOP_TOKEN": "a secret of these tests only"}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/")


@pytest.mark.full
@pytest.mark.timeout(900)
def test_its_own_commands_make_an_image_that_compiles_and_writes_nothing(opt, tmp_path):
    with in_image(opt, tmp_path, "-c", "open('/opt/kernels/x', 'w')") as process:
        assert "Read-only file system" in process.communicate(timeout=60)[1]
    with in_image(opt, tmp_path, "-c", MISSES) as process:
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    missed, found, *announced = out.split()
    assert (missed, announced) == ("0", [])
    assert int(found) > 5  # those of `cpu_index` and `cpu_sample` that every loader needs


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_server_in_it_answers_a_probe_and_ends_well(opt, tmp_path):
    halohop.partition(ring(60), tmp_path / "parts", num_parts=2, method="random")
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, 10001, 10001)
    serve = ("-m", "halohop", "serve", "/mnt/parts", "--share", "0/2", "--listen", "127.0.0.1:0", "--grace", "5")
    with in_image(opt, tmp_path, *serve, "--metrics", "127.0.0.1:0") as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        assert line.startswith("serving partitions 0 of /mnt/parts at "), line + server.stderr.read()
        with in_image(opt, tmp_path, "-m", "halohop", "health", line.split()[-1], "--seconds", str(within(20))) as probe:
            out, err = probe.communicate(timeout=100)
        assert "serves partitions 0" in out, err
        server.terminate()
        server.communicate(timeout=60)
    assert server.returncode == 0
