"""What commands print, what they refuse and with which exit codes, and what jobs plan."""

import pytest

from tests.golden import kept
from tests.golden.parts import jobs

PLAN = """engine ssh, 2 hosts x 1 trainers, 1 servers
ranks meet at a:29500; logs and results in /runs/a b

a:
  server-0: /py -m halohop serve /parts --share 0/1 --verify
    with 'A=b c'
    reads share 0/1 of /parts, brought to /tmp/parts

b:
  trainers-1 x 2: /py train.py 'two words'
    after server-0
"""


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("golden-commands")
@pytest.mark.parametrize("part", ["command_line", "jobs", "job_texts"])
def test_commands_do_what_is_kept(part: str) -> None:
    kept.check(part, kept.now(part))


def test_the_text_of_a_plan_is_read() -> None:
    found = jobs.plan_of(PLAN)
    assert (found["master"], found["out"], found["started by"]) == ("a:29500", "/runs/a b", "torchrun")
    assert found["processes"]["server-0"] == {
        "host": "a",
        "ranks": 0,
        "python": "/py",
        "serve": "/parts",
        "options": {"share": "0/1", "verify": True},
        "env": {"A": "b c"},
        "reads": {"partitions": "share 0/1", "of": "/parts", "brought to": "/tmp/parts"},
    }
    assert found["processes"]["trainers-1"] == {
        **{"host": "b", "ranks": 2, "python": "/py", "runs": ["train.py", "two words"], "after": ["server-0"]}
    }
