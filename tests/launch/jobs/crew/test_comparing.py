"""What hosts have found, without hosts."""

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.crew.comparing import check_alike, check_all_there
from halohop.launch.jobs.host.messages import Checked, Seen
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.jobs.plan import Plan, plan


def made(**given: object) -> Plan:
    return plan(Job(engine="ssh", hosts=("a", "b"), data="/parts", out="/out", run=("t.py",), **given), ["a", "b"])  # type: ignore[arg-type]


def found(a: tuple[int, ...], b: tuple[int, ...], num_parts: int = 4) -> dict[str, Checked]:
    return {host: Checked(problems=(), parts=parts, num_parts=num_parts) for host, parts in (("a", a), ("b", b))}


def test_hosts_together_must_have_all_partitions() -> None:
    check_all_there(found((0, 2), (1, 3)), made())
    check_all_there(found((0, 1), (2, 3)), made())
    check_all_there(found((0, 1, 2, 3), (0, 1, 2, 3)), made())
    check_all_there(found((0, 1, 2, 3), ()), made())
    with pytest.raises(InputError, match=r"partitions \[2, 3\] of 4 are on none of the 2 hosts; copy them to one"):
        check_all_there(found((0,), (1,)), made())
    check_all_there(found((), (), num_parts=0), made())  # no data set that could be read
    check_all_there(found((), ()), made(cache="/cache"))  # they are brought


def test_servers_must_have_their_own() -> None:
    check_all_there(found((0, 2), (1, 3)), made(servers=Servers()))
    with pytest.raises(InputError, match=r"server-0 on a is to hold partitions \[2\], which are not in /parts there; copy them"):
        check_all_there(found((0, 1), (2, 3)), made(servers=Servers()))
    check_all_there(found((0, 1, 2, 3), ()), made(servers=Servers(count=1)))


def test_files_must_be_alike() -> None:
    def seen(digest: str) -> Checked:
        return Checked(problems=(), seen=(Seen(path="/t.py", digest="1"), Seen(path="/x.json", digest=digest)))

    check_alike({"a": seen("2"), "b": seen("2")})
    with pytest.raises(InputError, match=r"/x\.json on b differs from /x\.json on a, but all hosts must have the same"):
        check_alike({"a": seen("2"), "b": seen("3")})


def test_a_host_without_a_server_reads_no_data_set() -> None:
    script, other = Seen(path="/t.py", digest="1"), Seen(path="/t.py", digest="3")
    manifest = Seen(path="/parts/manifest.json", digest="2")
    check_alike({"a": Checked(problems=(), seen=(script, manifest)), "b": Checked(problems=(), seen=(script,))})
    with pytest.raises(InputError, match=r"/t\.py on b differs from /t\.py on a"):
        check_alike({"a": Checked(problems=(), seen=(script, manifest)), "b": Checked(problems=(), seen=(other,))})
