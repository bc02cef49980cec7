import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.ssh.engine import engine
from halohop.launch.jobs.ssh.hosts import Host, hosts_of

needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")


def job(*hosts: str, **options: Any) -> Job:
    return Job(engine="ssh", hosts=hosts, data="/parts", out="/run", run=("train.py",), options=options)


def found(*hosts: str, **options: Any) -> tuple[Host, ...]:
    return hosts_of(job(*hosts, **options))[1]


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A command that reads a configuration of its own."""
    file = tmp_path / "config"
    file.write_text(
        "Host a\n  HostName 10.0.0.7\nHost b\n  HostName graph2.example\n  Port 2222\nHost loop\n  HostName 127.0.0.1\n"
    )
    return f"ssh -F {file}"


@needs_ssh
def test_the_users_configuration_says_where_hosts_are(config: str) -> None:
    a, b, c = found("a", "ann@b", "[fd00::7]:2200", command=config)
    assert (a.name, a.address, a.target) == ("a", "10.0.0.7", ("--", "a"))
    assert (b.name, b.address, b.target) == ("b", "graph2.example", ("-l", "ann", "--", "b"))
    assert (c.name, c.address, c.target) == ("fd00::7", "fd00::7", ("-p", "2200", "--", "fd00::7"))


@needs_ssh
def test_each_host_may_differ(config: str) -> None:
    own: dict[str, Any] = {"user": "eve", "port": 99, "address": "10.9.9.9", "python": "/p", "folder": "/f", "data": "/d"}
    own |= {"env": {"CUDA_VISIBLE_DEVICES": "1"}, "server_port": 30050}
    a, b = found("ann@a:1", "b", command=config, hosts={"a": own})
    assert a == Host(
        name="a",
        target=("-p", "99", "-l", "eve", "--", "a"),
        address="10.9.9.9",
        python="/p",
        folder="/f",
        data="/d",
        python_key="[ssh.hosts.a] python, or python_bins",
        env={"CUDA_VISIBLE_DEVICES": "1"},
        own={"CUDA_VISIBLE_DEVICES": "1"},
        server_port=30050,
    )
    assert (b.python, b.data, b.server_port) == (job("a").python, "/parts", 0)


@needs_ssh
@pytest.mark.parametrize(
    ("hosts", "options", "problem"),
    [
        (("a:ssh", "b"), {}, "host 'a:ssh': 'ssh' is no port"),
        (("a:70000", "b"), {}, "'70000' is no port"),
        (("a@", "b"), {}, "'a@' is no host"),
        (("a", "10.0.0.7"), {}, r"hosts a and 10\.0\.0\.7 are one \(10\.0\.0\.7\); name each host once"),
        (("a", "ann@a"), {}, "hosts a and a are one"),
        (("a", "loop"), {}, "host loop is reached at 127.0.0.1 from here, where the other hosts cannot reach it"),
        (("a", "b"), {"hosts": {"c": {}}}, r"\[ssh\.hosts\.c\] is no host of this job; its hosts are a, b"),
        (("a", "b"), {"hosts": {"a": {"pyton": "x"}}}, r"\[ssh\.hosts\.a\]: unknown key 'pyton'; did you mean 'python'"),
        (("a", "b"), {"hosts": {"b": {"data": "/x"}}}, "host b has its own data='/x', but cache='/cache' brings them"),
        (("a", "b"), {"conect_timeout": 3}, r"\[ssh\]: unknown key 'conect_timeout'; did you mean 'connect_timeout'"),
        (("a", "b"), {"connect_timeout": 0}, "connect_timeout=0 must be at least 1"),
        (("a", "b"), {"options": ["-o", "Nonsense=1"]}, "host a: ssh cannot read its configuration: .*Nonsense|nonsense"),
    ],
)
def test_what_cannot_be_reached_is_refused_before_anything(
    config: str, hosts: tuple[str, ...], options: dict[str, Any], problem: str
) -> None:
    cached = replace(job(*hosts, **{"command": config, **options}), cache="/cache")
    with pytest.raises(InputError, match=problem):
        hosts_of(cached)


@needs_ssh
def test_one_host_may_be_this_machine(config: str) -> None:
    assert found("loop", command=config)[0].address == "127.0.0.1"


@needs_ssh
def test_what_would_run_is_printed_without_a_connection(config: str) -> None:
    made = engine().plan(job("a", "b", command=config))
    assert made.master == "10.0.0.7:29500"
    assert [(process.name, process.ranks) for process in made.processes] == [("trainers-0", 1), ("trainers-1", 1)]


def test_hosts_need_names() -> None:
    with pytest.raises(InputError, match="hosts=2 is a number, but engine='ssh' needs names"):
        hosts_of(Job(engine="ssh", hosts=2, data="/parts", out="/run", run=("train.py",)))


def test_a_machine_without_ssh(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'.*/nossh' is not installed on this machine.*apt-get install openssh-client"):
        found("a", command=f"{tmp_path}/nossh -v")
    with pytest.raises(InputError, match="command is empty"):
        found("a", command=" ")


def test_the_token_is_in_no_environment_of_a_host() -> None:
    with pytest.raises(InputError, match="the token is not given in env, which plans and logs show"):
        found("a", command="true", hosts={"a": {"env": {"HALOHOP_TOKEN": "5e" * 16}}})


def test_a_client_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a `Match exec` of its configuration waits."""
    monkeypatch.setattr("halohop.launch.jobs.ssh.hosts._ASK_S", 0.2)
    client = tmp_path / "slow-ssh"
    client.write_text("#!/bin/sh\nexec sleep 1000\n")
    client.chmod(0o755)
    with pytest.raises(InputError, match=r"host a: `.*slow-ssh -G -- a` has not ended within 0.2 s; see whether a command"):
        found("a", command=str(client))
