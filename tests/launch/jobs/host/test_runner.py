"""A runner from its start to its end. Who starts it over ssh: tests/launch/jobs/ssh."""

import os
import signal
import sys
import time
from pathlib import Path
from subprocess import TimeoutExpired

import pytest

from halohop import __version__
from halohop.errors import InputError, PeerLostError
from halohop.launch.jobs.host.messages import (
    Begin,
    Bring,
    Brought,
    Compare,
    Copied,
    Ended,
    Output,
    Piece,
    Program,
    Started,
    Wanted,
)
from halohop.launch.processes.failures import parse_report
from halohop.launch.processes.places import THREADS
from halohop.launch.processes.starting import CHILD
from halohop.store.checksums import FileRecord
from tests.support.deadlines import within

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(1000)"
subprocess.Popen(["setsid", "sh", "-c", f'"{sys.executable}" -c "{child}" & exit 0'])  # an orphan in a session of its own
time.sleep(1000)
"""
POLITE = """
import signal, sys, time
def end(number, frame):
    print("saved", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(1000)
"""


def program(text: str, name: str = "one", **env: str) -> Program:
    return Program(name=name, argv=("-c", text), env=env)


def until(gone, seconds: float) -> bool:
    deadline = time.monotonic() + within(seconds)
    while not gone() and time.monotonic() < deadline:
        time.sleep(0.02)
    return gone()


def test_a_runner_says_who_it_is_without_importing_torch(launcher) -> None:
    hello = launcher.hello()
    assert hello.halohop == __version__
    assert hello.python == ".".join(map(str, sys.version_info[:3]))
    assert hello.executable == sys.executable
    maps = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in _family(launcher.process.pid))
    assert "libtorch" not in maps  # seconds at the start of every job


def test_processes_print_and_end_in_their_folder_and_environment(launcher, tmp_path) -> None:
    text = "import os, sys; print(os.getcwd(), os.environ['A'], os.environ['B']); print('no', file=sys.stderr); sys.exit(3)"
    launcher.order(program(text, A="own"), folder=tmp_path, env={"A": "all", "B": "all"})
    launcher.channel.send(Begin(name="one"))
    printed = b""
    assert launcher.answer(Started).name == "one"
    while isinstance(message := launcher.channel.receive(within(20)), Output):
        printed += message.data
    assert message == Ended(name="one", code=3)
    assert printed.decode() == f"{tmp_path} own all\nno\n"


def test_an_error_of_a_rank_comes_with_its_end(launcher, tmp_path) -> None:
    """A process may open a file that it has inherited on a full disk, too."""
    (tmp_path / "bad.py").write_text("import halohop\nraise halohop.errors.InputError('lr=0 must be over 0')\n")
    rank = Program(name="rank-0", argv=(*CHILD, "bad.py"), sharers=2)
    launcher.order(rank, folder=tmp_path)
    launcher.channel.send(Begin(name="rank-0"))
    while not isinstance(message := launcher.channel.receive(within(60)), Ended):
        assert isinstance(message, Started | Output)
    assert message.code == 1
    assert repr(parse_report(message.report)) == repr(InputError("lr=0 must be over 0"))


@pytest.fixture
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS, raising=False)


@pytest.mark.usefixtures("_no_threads")
def test_ranks_share_the_cores_of_their_host_unless_the_user_says_otherwise(launcher, tmp_path) -> None:
    text = "import os; print(os.environ['OMP_NUM_THREADS'])"
    one, two = (Program(name=name, argv=("-c", text), env=env, sharers=1000) for name, env in (("a", {}), ("b", {THREADS: "7"})))
    launcher.order(one, two, folder=tmp_path)
    for name in "ab":
        launcher.channel.send(Begin(name=name))
    printed: dict[str, bytes] = {}
    ended = 0
    while ended < 2:
        message = launcher.channel.receive(within(20))
        ended += isinstance(message, Ended)
        if isinstance(message, Output):
            printed[message.name] = printed.get(message.name, b"") + message.data
    assert printed == {"a": b"1\n", "b": b"7\n"}


def test_the_token_is_in_no_command_line_and_no_file(launcher, mark, marked) -> None:
    secret = "5e" * 16
    launcher.run(program("print('ready', flush=True); import time; time.sleep(1000)"), env={"HALOHOP_TOKEN": secret, **mark})
    everyone = {*_family(launcher.process.pid), *marked()}
    assert len(everyone) == 3  # the guard, the runner, and the process
    for pid in everyone:
        assert secret.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    (pid,) = marked()
    assert secret.encode() in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_launcher_that_goes_ends_all_and_polite_ones_have_their_time(launcher, mark, marked) -> None:
    launcher.run(program(POLITE), program(STUBBORN, "two"), env=mark)
    assert len(marked()) >= 3
    begin = time.monotonic()
    launcher.leave()
    printed, codes = launcher.until_ended()
    assert launcher.process.wait(within(10)) == 0
    assert time.monotonic() - begin < within(10)
    assert not marked()
    assert printed["one"] == b"saved\n"
    assert codes == {"one": 7, "two": -signal.SIGKILL}


def test_a_runner_whose_work_is_done_ends_at_once(launcher) -> None:
    """The launcher's end is no trouble to report, after which the runner would wait for more words."""
    launcher.order()
    launcher.leave()
    with pytest.raises(PeerLostError):
        pytest.fail(f"the runner said {launcher.channel.receive(within(20))}")
    assert launcher.process.wait(within(10)) == 0


@pytest.mark.parametrize(
    ("who", "kind"),
    [
        ("runner", signal.SIGKILL),
        pytest.param("runner", signal.SIGTERM, marks=pytest.mark.full),
        pytest.param("guard", signal.SIGKILL, marks=pytest.mark.full),
        pytest.param("guard", signal.SIGTERM, marks=pytest.mark.full),
    ],
)
def test_a_runner_that_is_ended_leaves_nothing(launcher, mark, marked, who, kind) -> None:
    launcher.run(program(STUBBORN, "two"), env=mark)
    guard, runner = sorted(_family(launcher.process.pid))
    assert guard == launcher.process.pid
    os.kill({"guard": guard, "runner": runner}[who], kind)
    assert until(lambda: not marked(), 10)
    assert until(lambda: not _family(runner), 5)


@pytest.mark.full
def test_a_launcher_that_says_nothing_any_more_is_lost(launcher, mark, marked) -> None:
    """As where the network is cut: nothing is closed. This launcher never says that it is alive."""
    launcher.run(program(STUBBORN, "two"), env=mark)
    begin = time.monotonic()
    assert until(lambda: not marked(), 10)
    assert time.monotonic() - begin > 5


@pytest.mark.full
def test_a_launcher_that_beats_is_not_lost(launcher, mark, marked) -> None:
    launcher.channel.beat()
    launcher.run(program(POLITE), env=mark)
    with pytest.raises(TimeoutExpired):
        launcher.process.wait(8)
    assert marked()


def test_what_cannot_be_started_is_named(launcher, tmp_path) -> None:
    launcher.order(program("", "one"), folder=tmp_path)
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    launcher.channel.send(Begin(name="one"))
    ended = launcher.answer(Ended)
    assert ended.code == 127
    assert "it cannot be started: No such file or directory" in str(parse_report(ended.report))
    tmp_path.with_name("elsewhere").rename(tmp_path)


def test_a_launcher_that_goes_while_it_sends_leaves_no_half_file(launcher, tmp_path) -> None:
    record = FileRecord(dtype="u1", shape=(9,), bytes=9, checksums=("00000000",))
    folder = Copied(folder=str(tmp_path / "parts"), files={"part-0000/a.npy": record}, small={}, manifest=b"{}")
    launcher.order(copied=(folder,))
    launcher.channel.send(Compare(number=0))
    assert launcher.answer(Wanted).files == ("part-0000/a.npy",)
    launcher.channel.send(Piece(path="part-0000/a.npy", data=b"four", last=False))
    assert until(lambda: [*(tmp_path / "parts" / "part-0000").glob("a.npy.partial-*")], 5)
    launcher.leave()
    assert launcher.process.wait(within(5)) == 0
    assert not [*(tmp_path / "parts" / "part-0000").iterdir()]


def test_result_files_come_back_whole(launcher, tmp_path) -> None:
    (tmp_path / "run" / "checkpoint").mkdir(parents=True)
    (tmp_path / "run" / "checkpoint" / "model.bin").write_bytes(bytes(range(256)) * 10_000)
    (tmp_path / "run" / "empty").touch()
    launcher.order()
    launcher.channel.send(Bring(folder=str(tmp_path / "run")))
    found: dict[str, bytes] = {}
    while isinstance(message := launcher.channel.receive(within(20)), Piece):
        found[message.path] = found.get(message.path, b"") + message.data
    assert message == Brought()
    assert found == {"checkpoint/model.bin": bytes(range(256)) * 10_000, "empty": b""}


def _family(ancestor: int) -> set[int]:
    """A process and those of its descendants that are ours from the start: the guard and the runner."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                name = (folder / "comm").read_text().strip()
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if int(folder.name) == ancestor or (parent == ancestor and name == "halohop host"):
                found.add(int(folder.name))
    return found
