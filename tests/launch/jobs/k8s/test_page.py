"""The jobs that the page shows are jobs, and Kubernetes takes their manifests."""

import re
from dataclasses import fields

import pytest

from halohop.launch.jobs.job import read_job
from halohop.launch.jobs.k8s.engine import Kubernetes
from halohop.launch.jobs.k8s.options import Options
from tests.support.kubernetes import objects_of
from tests.support.pages import section

PAGE = section("deploy/clusters.md", "Kubernetes")


@pytest.mark.parametrize("name", ["job.toml", "job_s3.toml"])
def test_kubernetes_takes_the_jobs_of_the_page(tmp_path, name):
    library = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    block = re.search(rf"^```toml {name}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert block is not None
    (tmp_path / name).write_text(block[1])
    objects = objects_of(Kubernetes().show(read_job(tmp_path / name, {})))
    assert "Job/papers-trainers" in objects
    for each in objects.values():
        library.validate(each, library.latest_version(), strict=True)


def test_the_page_lists_all_options():
    table = PAGE[PAGE.index("## Options of [k8s]") :]
    keys = {key for cells in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for key in re.findall(r"`([a-z-]+)`", cells)}
    assert keys == {field.name.replace("_", "-") for field in fields(Options)}
