import sys

from halohop.launch.jobs.crew.orders import order, plan_on
from halohop.launch.jobs.crew.way import Host
from halohop.launch.jobs.host.messages import Order
from halohop.launch.jobs.job import Job, Servers
from halohop.world import World

MARK = ("/run/launch.lock", "now")
SECRET = {"HALOHOP_TOKEN": "5e" * 16}


def host(name: str, **env: str) -> Host:
    return Host(
        name=name,
        target=(name,),
        address=f"{name}.example",
        python=sys.executable,
        folder="/job",
        data="/parts",
        env=env,
        own=env,
    )


def orders(job: Job, **env: str) -> list[Order]:
    hosts = [host(name, **env) for name in job.hosts]  # type: ignore[union-attr]
    made = plan_on(job, hosts)
    return [order(made, one, secret=SECRET, mark=MARK) for one in hosts]


def job(**values: object) -> Job:
    given = {"engine": "ssh", "hosts": ("a", "b"), "data": "/parts", "out": "/run", "run": ("train.py", "{graph}"), **values}
    return Job(**given)  # type: ignore[arg-type]


def test_ranks_have_their_places_and_meet_at_the_first_host() -> None:
    first, second = orders(job(trainers=2))
    assert [program.name for one in (first, second) for program in one.programs] == ["rank-0", "rank-1", "rank-2", "rank-3"]
    last = second.programs[-1]
    assert last.argv == ("-m", "halohop.launch.processes.child", "train.py", "/parts")
    assert World.from_env(last.env) == World(rank=3, size=4, host=1, num_hosts=2, local_rank=1, local_size=2)
    assert (last.env["MASTER_ADDR"], last.env["MASTER_PORT"], last.sharers) == ("a.example", "29500", 2)
    assert (first.ports, second.ports) == ((29500,), ())
    assert (first.master, second.master) == ("a.example", "a.example")
    assert first.scripts == ("train.py",)
    assert first.reads == ("/parts",)
    assert first.env == SECRET
    assert all("5e5e" not in word for one in (first, second) for program in one.programs for word in program.argv)


def test_a_plain_program_runs_as_it_is() -> None:
    _, second = orders(job(start="plain", run=("train.py", "{graph}", "{rank}")))
    (program,) = second.programs
    assert program.argv == ("train.py", "/parts", "1")
    assert second.scripts == ("train.py",)


def test_servers_have_ports_that_must_be_free() -> None:
    first, second = orders(job(servers=Servers(port=6000)))
    assert [program.name for program in first.programs] == ["server-0", "rank-0"]
    assert first.programs[1].argv[-1] == "a.example:6000,b.example:6000"
    assert (first.ports, second.ports) == ((6000, 29500), (6000,))


def test_data_of_a_url_are_fetched_by_the_host() -> None:
    first, _ = orders(job(data="s3://bucket/parts", cache="/cache"))
    assert first.programs[-1].name == "fetch"
    assert first.programs[-1].argv[:4] == ("-m", "halohop", "fetch", "s3://bucket/parts")
    assert first.programs[-1].argv[-2:] == ("--share", "0/2")
    assert first.reads == ()


def test_a_module_is_no_script_and_a_host_has_its_own_environment() -> None:
    (one,) = orders(job(hosts=("a",), run=("-m", "mine"), env={"A": "all"}), B="own")
    assert one.scripts == ()
    assert one.programs[0].env.items() >= {"A": "all", "B": "own"}.items()
