"""What commands print, what they refuse and with which exit codes, and what jobs plan."""

import json

from tests.golden.parts import jobs

PLAN = {
    "job": {"engine": "ssh", "start": "torchrun", "out": "/runs/a b"},
    "master": "a:29500",
    "processes": [
        {
            **{"name": "server-0", "host": "a", "ranks": 0, "python": "/py", "needs": [], "env": {"A": "b c"}},
            "argv": ["-m", "halohop", "serve", "/parts", "--share", "0/4+1", "--verify"],
            "data": {
                "source": "/parts",
                "folder": "/tmp/parts",
                "shares": [{"index": 0, "count": 4}, {"index": 1, "count": 4}],
                "copied": True,
            },
        },
        {
            **{"name": "trainers-1", "host": "b", "ranks": 2, "python": "/py", "needs": ["server-0"], "env": {}},
            **{"argv": ["train.py", "two words"], "data": None},
        },
    ],
}


def test_the_text_of_a_plan_is_read() -> None:
    found = jobs.plan_of(json.dumps(PLAN))
    assert (found["master"], found["out"], found["started by"]) == ("a:29500", "/runs/a b", "torchrun")
    assert found["processes"]["server-0"] == {
        "host": "a",
        "ranks": 0,
        "python": "/py",
        "serve": "/parts",
        "options": {"share": "0/4+1", "verify": True},
        "env": {"A": "b c"},
        "reads": {"partitions": "share 0/4+1", "of": "/parts", "brought to": "/tmp/parts"},
    }
    assert found["processes"]["trainers-1"] == {
        **{"host": "b", "ranks": 2, "python": "/py", "runs": ["train.py", "two words"], "after": ["server-0"]}
    }
