from pathlib import Path

import pytest
from typer.testing import CliRunner

import halohop
from halohop.errors import InputError
from halohop.launch.cli import app
from halohop.launch.commands.serving import served_parts
from halohop.testing.graphs import ring


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serving") / "parts"
    halohop.partition(ring(60), path, num_parts=5, method="random")
    return path


def test_shares_and_partitions_choose_what_is_served(parts):
    assert served_parts(parts, None, "1/2") == (1, 3)
    assert served_parts(parts, None, "0/2,1/4") == (0, 1, 2, 4)
    assert served_parts(parts, "1,4", None) == (1, 4)
    assert served_parts(parts, None, None) is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--share", "3/2"], "there is no share 3/2; 2 shares are 0/2 to 1/2"),
        (["--share", "6/7"], "share 6/7 has no partition, because the data set has 5"),
        (["--share", "0/2", "--partitions", "0"], "--share 0/2 and --partitions 0 both say what to serve"),
        (["--peers", "folder:"], "names no folder"),
        (["--advertise", "0.0.0.0:0"], "--advertise 0.0.0.0:0 means all interfaces"),
    ],
)
def test_options_that_cannot_work_are_refused(parts, options, complaint):
    done = CliRunner().invoke(app, ["serve", str(parts), *options])
    assert done.exit_code == 2
    assert complaint in done.output


def test_as_many_threads_answer_as_are_asked_for(parts, monkeypatch):
    given = {}

    def serve(path, **options):
        given.update(options)
        raise InputError("enough")

    monkeypatch.setattr(halohop, "serve", serve)
    assert CliRunner().invoke(app, ["serve", str(parts), "--threads", "3"]).exit_code == 2
    assert given["limits"] == halohop.hosts.Limits(handler_threads=3)
    assert CliRunner().invoke(app, ["serve", str(parts)]).exit_code == 2
    assert given["limits"] == halohop.hosts.Limits()


def test_the_folder_for_tables_is_that_of_the_server(parts, tmp_path, monkeypatch):
    given = {}

    def serve(path, **options):
        given.update(options)
        raise InputError("enough")

    monkeypatch.setattr(halohop, "serve", serve)
    assert CliRunner().invoke(app, ["serve", str(parts), "--tables", str(tmp_path / "tables")]).exit_code == 2
    assert given["tables"] == tmp_path / "tables"


@pytest.mark.parametrize("token", [False, True], ids=["none", "token"])
@pytest.mark.parametrize("folder", [False, True], ids=["in memory", "with a folder"])
def test_without_a_token_it_warns_what_users_of_this_host_may_do(parts, tmp_path, monkeypatch, token, folder):
    monkeypatch.setattr("halohop.net.serve.Server.wait", lambda server: None)
    if token:
        monkeypatch.setenv("HALOHOP_TOKEN", "a secret of some length")
    more = ["--tables", str(tmp_path / "tables")] if folder else []
    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["serve", str(parts), "--listen", "127.0.0.1:0", *more])
    assert done.exit_code == 0, done.output
    files = f", and write and remove files in {tmp_path}/tables" if folder else ""
    warning = f"no token is set, so all users of this host can read the graph and change its tables{files}. Set HALOHOP_TOKEN"
    assert (warning in done.output) is not token
    assert done.output.startswith("serving partitions")
