from typing import Any

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.jobs.plan import check_parts, data_of, plan, resuming
from halohop.store.share import shares


def job(**given: Any) -> Job:
    return Job(**({"hosts": ("a", "b", "c"), "data": "/d/parts", "out": "/out", "run": ("t.py", "{graph}", "{out}")} | given))


def test_hosts_that_hold_the_graph() -> None:
    made = plan(job(trainers=2, cache="/c/{host}"), ["a", "b", "c"])
    assert made.master == "a:29500"
    assert [process.name for process in made.processes] == ["trainers-0", "trainers-1", "trainers-2"]
    second = made.processes[1]
    assert second.data is not None
    assert (second.host, second.ranks, second.role, second.needs) == ("b", 2, "trainers", ())
    assert second.data.copied
    assert second.data.shares == shares("1/3")
    assert second.argv == ("t.py", second.data.folder, "/out")
    assert second.data.folder.startswith("/c/b/parts-")


def test_a_plain_program_gets_its_place_in_its_words() -> None:
    words = ("t.py", "--rank={rank}", "{hosts}", "{master_addr}:{master_port}", "{graph}", "{other}")
    made = plan(job(engine="ssh", start="plain", run=words, servers=Servers(count=1)), ["a", "b", "c"], ["a.x", "b.x", "c.x"])
    last = made.trainers[2]
    assert last.argv == ("t.py", "--rank=2", "3", "a.x:29500", "a.x:5510", "{other}")
    ranks = plan(job(run=words), ["a", "b", "c"])
    assert "--rank={rank}" in ranks.trainers[2].argv


def test_hosts_may_see_the_data_at_places_of_their_own() -> None:
    made = plan(job(), ["a", "b", "c"], sources={"b": "/b/parts"})
    assert [process.argv[1] for process in made.trainers] == ["/d/parts", "/b/parts", "/d/parts"]
    assert [process.data and process.data.folder for process in made.trainers] == ["/d/parts", "/b/parts", "/d/parts"]
    served = plan(job(servers=Servers()), ["a", "b", "c"], sources={"b": "/b/parts"})
    assert [server.argv[3] for server in served.servers] == ["/d/parts", "/b/parts", "/d/parts"]


def test_ports_may_be_those_that_hosts_have_chosen() -> None:
    wanted = Servers(count=4, port=0)
    free = plan(job(engine="ssh", servers=wanted, master_port=0), ["a", "b", "c"])
    assert (free.master, [server.address for server in free.servers]) == ("a:0", ["a:0", "b:0", "c:0", "a:0"])
    ports = {"a": [7, 8], "b": [9], "c": [10]}
    chosen = plan(job(engine="ssh", servers=wanted), ["a", "b", "c"], ports=ports)
    assert [server.address for server in chosen.servers] == ["a:7", "b:9", "c:10", "a:8"]
    assert "--listen 0.0.0.0:8 --advertise a:8 --peers a:7,b:9,c:10,a:8" in " ".join(chosen.servers[3].argv)
    with pytest.raises(InputError, match="host a has 1 free ports for servers, too few; take fewer servers, or give a port"):
        plan(job(engine="ssh", servers=wanted), ["a", "b", "c"], ports={**ports, "a": [7]})


def test_environment_may_name_the_graph_and_the_run_folder() -> None:
    env = {"A": "{graph}", "B": "of {out} {other}"}
    made = plan(job(hosts=2, servers=Servers(), env=env), ["a", "b"])
    assert {process.env["A"] for process in made.processes} == {"a:5510,b:5510"}
    assert {process.env["B"] for process in made.processes} == {"of /out {other}"}
    own = plan(job(hosts=2, env=env), ["a", "b"], sources={"b": "/b/parts"})
    assert [process.env["A"] for process in own.trainers] == ["/d/parts", "/b/parts"]


def test_hosts_that_see_one_folder_read_all_of_it() -> None:
    made = plan(job(), ["a", "b", "c"])
    assert {process.argv for process in made.processes} == {("t.py", "/d/parts", "/out")}
    assert all(process.data and not process.data.copied and process.data.shares == () for process in made.processes)
    check_parts(made, 1)


def test_servers_hold_shares_and_know_each_other() -> None:
    made = plan(job(servers=Servers(replicas=2, options={"grace": 5}), encrypt=True, env={"A": "b"}), ["a", "b", "c"])
    last = made.servers[2]
    assert last.argv == (
        *("-m", "halohop", "serve", "/d/parts", "--share", "2/3+1", "--listen", "0.0.0.0:5510"),
        *("--advertise", "c:5510", "--peers", "a:5510,b:5510,c:5510", "--grace", "5"),
    )
    assert last.env == {"A": "b", "HALOHOP_ENCRYPT": "1"}
    assert made.trainers[1].argv == ("t.py", "a:5510,b:5510,c:5510", "/out")
    assert made.trainers[1].needs == ("server-0", "server-1", "server-2")
    assert made.trainers[1].data is None


def test_more_servers_than_hosts_and_hosts_of_one_address_have_ports_of_their_own() -> None:
    made = plan(job(hosts=2, servers=Servers(count=3), cache="/c"), ["a", "b"])
    assert [server.address for server in made.servers] == ["a:5510", "b:5510", "a:5511"]
    assert [server.data and server.data.shares for server in made.servers] == [shares("0/3"), shares("1/3"), shares("2/3")]
    needed = [data_of(made, host) for host in made.hosts]
    assert [data and data.shares for data in needed] == [shares("0/3,2/3"), shares("1/3")]
    here = plan(job(hosts=2, servers=Servers(count=3)), ["one", "two"], ["127.0.0.1"] * 2)
    assert [server.address for server in here.servers] == ["127.0.0.1:5510", "127.0.0.1:5511", "127.0.0.1:5512"]
    assert here.servers[1].argv[6:8] == ("--listen", "127.0.0.1:5511")
    six = plan(job(hosts=1, servers=Servers()), ["fd00::7"])
    assert six.servers[0].argv[6:10] == ("--listen", "[::]:5510", "--advertise", "[fd00::7]:5510")
    assert six.master == "[fd00::7]:29500"


def test_options_of_train_become_its_command_line() -> None:
    made = plan(job(hosts=1, run=(), train={"fanout": [10, 5], "batch_size": 8, "strict_negatives": True, "json": False}), ["a"])
    assert made.trainers[0].argv == (
        *("-m", "halohop", "train", "/d/parts", "--out", "/out", "--fanout", "10,5", "--batch-size", "8"),
        "--strict-negatives",
    )


def test_shares_of_ones_own_choice() -> None:
    made = plan(job(servers=Servers(shares=("0/2", "0/2,1/2"))), ["a", "b", "c"])
    assert [server.argv[5] for server in made.servers] == ["0/2", "0/2+1"]


@pytest.mark.parametrize(
    ("given", "parts", "complaint"),
    [
        ({"cache": "/c"}, 2, r"trainers-2 on c: share 2/3 has no partition, because the data set has 2; .* or take fewer hosts"),
        ({"servers": Servers(count=4)}, 3, "server-3 on a: share 3/4 has no partition.* or take fewer servers"),
        ({"servers": Servers(shares=("0/2", "1/4"))}, 4, r"partitions \[3\] are in no share: server-0 has 0/2, server-1 has 1/4"),
    ],
)
def test_data_that_do_not_fit_the_hosts_are_refused(given: dict[str, Any], parts: int, complaint: str) -> None:
    made = plan(job(**given), ["a", "b", "c"])
    with pytest.raises(InputError, match=complaint):
        check_parts(made, parts)


def test_a_plan_that_no_hosts_can_follow_is_refused() -> None:
    with pytest.raises(InputError, match="the job has 3 hosts, but there are 2: a, b"):
        plan(job(), ["a", "b"])
    with pytest.raises(InputError, match="replicas=3 of each partition need as many servers, but there are 2"):
        plan(job(servers=Servers(count=2, replicas=3)), ["a", "b", "c"])


def test_servers_may_have_hosts_of_their_own() -> None:
    made = plan(job(hosts=1, servers=Servers(count=2)), ["trainer"], apart=["s0", "s1"])
    assert [server.host for server in made.servers] == ["s0", "s1"]
    assert made.trainers[0].argv == ("t.py", "s0:5510,s1:5510", "/out")
    assert made.master == "trainer:29500"


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, ("--resume", "auto")), ({"resume": "/runs/1"}, ("--resume", "/runs/1")), (None, ())],
)
def test_what_starts_again_resumes_unless_the_job_says_how(given: dict[str, Any] | None, expected: tuple[str, ...]) -> None:
    own: dict[str, Any] = {} if given is None else {"run": (), "train": {"epochs": 2, **given}}
    made = plan(resuming(job(hosts=1, **own)), ["a"])
    assert made.trainers[0].argv[-2:] == (expected or ("/d/parts", "/out"))
