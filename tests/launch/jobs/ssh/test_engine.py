"""The engine against real ssh servers. What does not need them: test_hosts.py, test_orders.py, tests/launch/jobs/host."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from halohop import __version__
from tests.support.sshd import Cluster

pytestmark = pytest.mark.timeout(240)

WAITING = "wait"


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_job_on_two_hosts_copies_each_its_partitions(launches) -> None:
    cache = f'cache = "{launches.folder}/cache-{{host}}"\ntrainers = 2'
    code, out, err = launches.run("nothing", more=cache)
    assert code == 0, err
    assert [line.split(" reads")[0] for line in out.splitlines()] == ["rank 0 of 4"]
    other = (launches.out / "logs" / "b-rank-2.log").read_text()
    assert "rank 2 of 4 reads " + str(launches.folder / "cache-b" / "parts-") in other
    for part, host in enumerate("ab"):
        (folder,) = (launches.folder / f"cache-{host}").iterdir()
        assert (folder / "manifest.json").exists()
        assert {name.split("/")[0] for name in names(folder)} == {"manifest.json", f"part-000{part}"}
    assert launches.gone_within() == []


@pytest.mark.full
def test_a_second_job_copies_nothing_but_what_has_changed(launches) -> None:
    cache = f'cache = "{launches.folder}/cache-{{host}}"'
    assert launches.run("nothing", more=cache)[0] == 0
    code, _, err = launches.run("nothing", more=cache)
    assert code == 0
    assert err.count("nothing copied to") == 2
    file = max((launches.folder / "cache-b").rglob("*.npy"), key=lambda path: path.stat().st_size)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    code, _, err = launches.run("nothing", more=cache)
    assert code == 0
    assert err.count("nothing copied to") == 1
    assert file.read_bytes() == whole


@pytest.mark.full
def test_hosts_fetch_their_shares_from_a_url(launches, parts: Path) -> None:
    code, _, err = launches.run("nothing", more=f'data = "file://{parts}"\ncache = "{launches.folder}/cache-{{host}}"')
    assert code == 0, err
    for part, host in enumerate("ab"):
        (folder,) = (launches.folder / f"cache-{host}").iterdir()
        assert {name.split("/")[0] for name in names(folder)} == {"manifest.json", f"part-000{part}"}


@pytest.mark.full
def test_results_of_a_host_that_does_not_see_the_run_folder_come_back(launches, cluster: Cluster) -> None:
    shared, private = launches.out, cluster.private / "run"
    code, _, err = launches.run("write", shared)
    assert code == 0, err
    assert (shared / "result.txt").read_text() == "forty two"
    assert "came to" not in err
    code, _, err = launches.run("write", private, more=f"out = '{private}'")
    assert code == 0, err
    assert (private / "result.txt").read_text() == "forty two"
    assert f"1 file of a:{private} came to {private}" in err
    shutil.rmtree(private)


def other_config(cluster: Cluster, folder: Path, old: str, new: str) -> Path:
    text = cluster.config.read_text()
    assert old in text
    (folder / "other.config").write_text(text.replace(old, new))
    return folder / "other.config"


@pytest.mark.full
def test_a_key_that_is_not_known_or_has_changed_or_is_refused(launches, cluster: Cluster) -> None:
    folder = launches.folder
    known = (cluster.folder / "known_hosts").read_text()
    only_a = known.splitlines()[0]
    wrong = (cluster.folder / "user.pub").read_text().strip()
    changed = f"{only_a}\n{cluster.hosts[1].address} {wrong}\n"
    for text, meaning in (
        (only_a, "host b has a key that is not known here; connect once with `ssh"),
        (changed, "host b has another key than known_hosts says"),
    ):
        (folder / "known_hosts").write_text(text + "\n")
        config = other_config(cluster, folder, f"{cluster.folder}/known_hosts", f"{folder}/known_hosts")
        code, _, err = launches.run(WAITING, config=config)
        assert (code, meaning in err) == (2, True), err
    shutil.copy(cluster.folder / "host", folder / "stranger")
    config = other_config(cluster, folder, f"IdentityFile {cluster.folder}/user", f"IdentityFile {folder}/stranger")
    code, _, err = launches.run(WAITING, config=config)
    assert code == 2
    assert "2 of 2 hosts cannot run this job:" in err
    assert "b refuses our key; `ssh-copy-id b`" in err


@pytest.mark.full
def test_connections_that_the_user_has_opened_are_used(launches, cluster: Cluster) -> None:
    """As with hosts that want a password, which only the user's own ssh asks for: the launcher has no key that opens them."""
    folder = launches.folder
    shared = f"Host *\n  ControlPath {folder}/%n\n"
    shutil.copy(cluster.folder / "host", folder / "stranger")
    config = other_config(cluster, folder, f"IdentityFile {cluster.folder}/user", f"IdentityFile {folder}/stranger")
    config.write_text(config.read_text() + shared)
    login = folder / "login.config"
    login.write_text(f"{cluster.config.read_text()}{shared}  ControlMaster yes\n  ControlPersist 60\n")

    null = subprocess.DEVNULL
    try:
        for name in cluster.names:
            command = ["ip", "netns", "exec", cluster.here.name, "ssh", "-F", str(login), name, "true"]
            subprocess.run(command, timeout=20, check=True, stdin=null, stdout=null, stderr=null)
        code, out, err = launches.run("nothing", config=config)
        assert code == 0, err
        assert "rank 0 of 2 reads" in out
        launcher = launches.start("wait", folder, config=config)
        launches.wait_for(lambda: len([*folder.glob("rank-*")]) == 2, launcher)
        launches.kill(launcher)
        assert launches.gone_within(but="[mux]") == []
    finally:
        for number in cluster.here.process_ids():
            if b"[mux]" in Path(f"/proc/{number}/cmdline").read_bytes():
                os.kill(number, signal.SIGTERM)
    assert launches.gone_within() == []
    assert launches.run("nothing", config=config)[0] == 2


@pytest.mark.full
@pytest.mark.parametrize(
    ("more", "ssh", "words"),
    [
        ('hosts = ["a", "10.99.0.77"]', "connect_timeout = 2", "host 10.99.0.77 is not reached; see whether it is up"),
        ('hosts = ["a", "b:2222"]', "", "host b has no ssh server that answers; start sshd there, or give its port"),
        ('hosts = ["a", "no.such.host.invalid"]', "", "host no.such.host.invalid has no address"),
        ('hosts = ["a", "b", "10.99.0.3"]', "", "hosts b and 10.99.0.3 are one (10.99.0.3); name each host once"),
        ("", '[ssh.hosts.b]\npython = "/opt/no/python"', "host b has no Python at /opt/no/python"),
        ("", '[ssh.hosts.b]\nfolder = "/no/folder"', "host b cannot run this job: there is no folder /no/folder"),
        ('run = ["nothing.py"]', "", "there is no script"),
        ('data = "/no/data"', "", "/no/data has no manifest.json: this host does not see the data set"),
    ],
)
def test_what_cannot_work_is_named_with_its_host(launches, more, ssh, words) -> None:
    code, _, err = launches.run(WAITING, more=more, table=ssh)
    assert code == 2
    assert words in err
    assert launches.gone_within() == []


@pytest.mark.full
def test_a_port_in_use_and_another_halohop_are_named(launches, cluster: Cluster) -> None:
    listener = cluster.hosts[1].start(
        "-c", "import socket; s = socket.create_server(('', 5510)); print('up', flush=True); s.accept()"
    )
    assert listener.stdout is not None
    assert listener.stdout.readline() == "up\n"
    _, _, err = launches.run(WAITING, more="servers = 2")
    assert "host b cannot run this job: port 5510 cannot be used: Address already in use" in err
    listener.kill()
    listener.communicate(timeout=20)
    old = launches.folder / "old" / "halohop"
    shutil.copytree(Path(__file__).parents[4] / "src" / "halohop", old, ignore=shutil.ignore_patterns("__pycache__"))
    init = old / "__init__.py"
    init.write_text(init.read_text().replace(f'"{__version__}"', '"0.0.9"'))
    _, _, err = launches.run(WAITING, table=f'[ssh.hosts.b]\nenv = {{PYTHONPATH = "{old.parent}"}}')
    assert "host b has halohop 0.0.9 (" in err
    assert f"but this machine has {__version__}; install the same there" in err
    (old / "launch" / "jobs" / "host" / "__main__.py").unlink()
    _, _, err = launches.run(WAITING, table=f'[ssh.hosts.b]\nenv = {{PYTHONPATH = "{old.parent}"}}')
    assert f"host b has no halohop {__version__} for" in err
