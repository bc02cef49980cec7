"""moto's S3, by s3fs: what it answers where things are as they should be, and where they are not."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from halohop.errors import CorruptDatasetError, DatasetError, IncompleteDatasetError, WriteError
from halohop.launch.cli import app
from halohop.store.afar.fetching import fetch
from halohop.store.afar.uploading import upload
from halohop.store.names import MANIFEST
from tests.store.afar.conftest import CHUNK

pytestmark = [
    pytest.mark.full,  # importing s3fs and moto takes seconds
    pytest.mark.filterwarnings("default"),  # of theirs
]


@pytest.fixture(scope="module")
def s3() -> Iterator[object]:
    """A file system of s3fs with an empty bucket, ``bucket``."""
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed: pip install s3fs 'moto[server]'")
    moto = pytest.importorskip("moto.server", reason="moto is not installed: pip install s3fs 'moto[server]'")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        system = s3fs.S3FileSystem()
        system.mkdir("bucket")
        yield system
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def url(s3: object, far_parts: Path) -> Iterator[str]:
    """Of the data set in the bucket."""
    s3.put(str(far_parts), "bucket/parts", recursive=True)  # type: ignore[attr-defined]
    yield "s3://bucket/parts"
    s3.rm("bucket/parts", recursive=True)  # type: ignore[attr-defined]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_staged_set_is_equal_file_by_file(url: str, far_parts: Path, tmp_path: Path) -> None:
    fetch(url, tmp_path / "here", share="1/2")
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == [MANIFEST, "part-0001"]
    assert contents(fetch(url, tmp_path / "here")) == contents(far_parts)


def test_a_flipped_byte_a_cut_and_a_missing_object(url: str, s3: object, far_parts: Path, tmp_path: Path) -> None:
    name = "part-0001/nodes/node/x.npy"
    data, far = bytearray((far_parts / name).read_bytes()), f"bucket/parts/{name}"
    data[CHUNK + 1] ^= 1
    s3.pipe_file(far, bytes(data))  # type: ignore[attr-defined]
    with pytest.raises(CorruptDatasetError, match=rf"s3://bucket/parts/{name} has checksum .* in the bytes 4096 to 8192"):
        fetch(url, tmp_path / "here")
    s3.pipe_file(far, bytes(data[: CHUNK // 2]))  # type: ignore[attr-defined]
    with pytest.raises(DatasetError, match=rf"s3://bucket/parts/{name} (ends|cannot be read)"):
        fetch(url, tmp_path / "here")
    s3.rm_file(far)  # type: ignore[attr-defined]
    with pytest.raises(IncompleteDatasetError, match=rf"s3://bucket/parts/{name} is missing"):
        fetch(url, tmp_path / "here")
    assert not (tmp_path / "here" / MANIFEST).exists()
    s3.put_file(str(far_parts / name), far)  # type: ignore[attr-defined]
    assert contents(fetch(url, tmp_path / "here")) == contents(far_parts)


def test_what_is_sent_is_equal_file_by_file(s3: object, far_parts: Path, tmp_path: Path) -> None:
    upload(far_parts, "s3://bucket/sent/parts")
    assert contents(fetch("s3://bucket/sent/parts", tmp_path / "here")) == contents(far_parts)
    with pytest.raises(WriteError, match=r"s3://no-such-bucket/parts/manifest.uploading cannot be written"):
        upload(far_parts, "s3://no-such-bucket/parts")


def test_the_commands(s3: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    stage = ["--stage", str(tmp_path / "stage")]
    lines = [
        ["partition", "synthetic:tiny", "s3://bucket/tiny", "--parts", "2", "--method", "random", *stage],
        ["train", "s3://bucket/tiny", "--out", "s3://bucket/run", "--epochs", "1", "--device", "cpu", "--workers", "0", *stage],
        ["train", "--resume", "s3://bucket/run", "--epochs", "2"],
        ["infer", "s3://bucket/tiny", "--checkpoint", "s3://bucket/run/checkpoint", "--out", "s3://bucket/found", *stage],
        ["fetch", "s3://bucket/tiny", str(tmp_path / "tiny")],
        ["upload", str(tmp_path / "tiny"), "s3://bucket/again"],
    ]
    for line in lines:
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 0, done.output
        assert "testing" not in done.output
    names = {name.removeprefix("bucket/") for name in s3.find("bucket")}  # type: ignore[attr-defined]
    assert {"run/resume.pt", "run/checkpoint/model.pt", "run/metrics.jsonl", "found/predictions.npy"} <= names
    assert {name.removeprefix("tiny/") for name in names if name.startswith("tiny/")} == {
        name.removeprefix("again/") for name in names if name.startswith("again/")
    }
    assert not [name for name in names if name.endswith((".uploading", ".incomplete"))]


def test_no_bucket_and_no_credentials(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("s3://no-such-bucket/parts", "s3://bucket/elsewhere"):
        with pytest.raises(
            IncompleteDatasetError, match=f"{place} has no manifest.json: .*the bucket or the path has another name"
        ):
            fetch(place, tmp_path / "here")
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(DatasetError, match=r"cannot be read \(NoCredentialsError: .*see whether the credentials"):
        fetch(url, tmp_path / "here")
    s3fs.S3FileSystem.clear_instance_cache()
