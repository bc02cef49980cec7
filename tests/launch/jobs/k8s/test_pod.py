"""A job as a pod sees it, and what a pod refuses; jobs in pods: test_contract.py."""

import os
from pathlib import Path
from typing import Any

import pytest

from halohop.launch.jobs.job import Job
from halohop.launch.jobs.job_text import job_text
from halohop.launch.jobs.k8s.pod import _in_pod, main


def job(**given: Any) -> Job:
    values = {"engine": "k8s", "data": "/shared/parts", "out": "/shared/run", "options": {"image": "i", "claim": "shared"}}
    return Job(**{**values, **given})


def test_a_script_that_a_config_map_brings_finds_the_images_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "/image")
    paths = [
        _in_pod(job(run=(script,), env=env)).env.get("PYTHONPATH")
        for script, env in (("/script/t.py", {}), ("/script/t.py", {"PYTHONPATH": "/job"}), ("t.py", {}))
    ]
    assert paths == [f"/image{os.pathsep}{tmp_path}", f"/job{os.pathsep}{tmp_path}", None]


def test_our_recipe_goes_on_where_a_replaced_pod_has_saved() -> None:
    assert _in_pod(job(train={})).train == {"resume": "auto"}
    assert _in_pod(job(train={"resume": "/runs/1"})).train == {"resume": "/runs/1"}


def test_a_pod_without_a_token_is_refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HALOHOP_TOKEN", "")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("halohop.launch.terminal.logs.configure", lambda level: None)
    assert main(job_text(job(run=("t.py",)))) == 2
    assert capfd.readouterr().out == "halohop: the Secret 'halohop-token' has no token; put one under its key 'token'\n"
