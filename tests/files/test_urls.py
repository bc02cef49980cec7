"""A URL never becomes a folder that is called ``s3:``, whichever way it comes."""

from pathlib import Path

import pytest

import halohop
from halohop.datasets import synthetic
from halohop.errors import InputError
from halohop.files import is_url, masked, sealed_file, whole_file, write_file, writing
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.store.disk import read_manifest
from halohop.store.writer import new_dataset


@pytest.mark.parametrize(
    "text", ["s3://b", "gs://b/p", "file:///p", "simplecache::s3://b/p", "hdfs://n:9000/p", "S3://b", "s3a://b"]
)
def test_a_url(text: str) -> None:
    assert is_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "parts",
        "/a/b",
        "./s3",
        "a:1,b:2",
        "10.0.0.7:5510",
        "tcp://a:1",
        "[::1]:5510",
        "synthetic:tiny",
        "dgl:/a/b.json",
        "pyg:A/B",
        "",
    ],
)
def test_no_url(text: str) -> None:
    assert not is_url(text)


def test_a_path_that_was_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_url(Path("s3://b/p"))
    assert is_url(Path("s3://b/p").absolute())
    assert is_url(Path("s3:/").resolve())
    assert not is_url(tmp_path / "a" / "s3")


def test_secrets_are_masked_anywhere_in_a_text() -> None:
    text = "no sftp://ann:pa%40ss@h:22/p, nor https://h/p?X-Amz-Signature=abc&x=1 and s3://b/p"
    assert masked(text) == "no sftp://ann:***@h:22/p, nor https://h/p?*** and s3://b/p"
    assert masked("s3://KEY:SE/CRET@b/p") == "s3://KEY:***@b/p", "what should have been quoted, too"


def test_nothing_is_written_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = Path("s3://bucket/x")
    writes = [
        lambda: whole_file(url).__enter__(),
        lambda: sealed_file(url.absolute()).__enter__(),
        lambda: write_file(url, b""),
        lambda: writing(url / "deep").__enter__(),
        lambda: new_dataset(url.resolve(), overwrite=False).__enter__(),
        lambda: halohop.partition(synthetic("tiny"), "s3://bucket/x", num_parts=1),
        lambda: halohop.fetch("parts", "s3://bucket/x"),
        lambda: read_manifest("s3://bucket/x"),
        lambda: TrainConfig(parts="s3://bucket/x", out="run"),
        lambda: TrainConfig(parts="parts", out="s3://bucket/x"),
        lambda: InferConfig(parts="parts", out="out", checkpoint="s3://bucket/x"),
    ]
    for write in writes:
        with pytest.raises(InputError, match=r"s3://bucket/x(/deep)? is a URL, which does not work here; "):
            write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a\0b", "a" * 256, "parts/" + "é" * 128, "a\0/b"])
def test_names_that_no_file_can_have_are_refused_everywhere(name: str, tmp_path: Path) -> None:
    from halohop.datasets import synthetic
    from halohop.datasets.part_config import read_part_config, writing_part_config

    for attempt in (
        lambda: halohop.open(name),
        lambda: halohop.load_source(name),
        lambda: halohop.partition(synthetic("tiny"), tmp_path / name, num_parts=1),
        lambda: read_part_config(name),
        lambda: writing_part_config(tmp_path, name, "random").__enter__(),
    ):
        with pytest.raises(InputError, match="cannot be the name of a file; use at most 255 bytes, none of them NUL"):
            attempt()
