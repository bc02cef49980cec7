import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from halohop.errors import InputError
from halohop.launch import cli
from halohop.launch.runs import runs
from halohop.launch.runs.source import SourceOptions
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.store.afar import chunks


def invoke(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `halohop train` would have started."""
    calls: list[dict[str, Any]] = []

    def train(config: TrainConfig, source: SourceOptions, **more: Any) -> None:
        calls.append({"config": config, "source": source, **more})

    monkeypatch.setattr(runs, "train", train)
    return calls


@pytest.mark.parametrize("command", ["partition", "inspect", "train", "infer", "serve", "demo"])
def test_help_has_an_example(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"$ halohop {command}" in result.output


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("command", ["", *sorted(get_command(cli.app).commands)])
def test_help_is_whole_on_a_narrow_terminal(command: str, columns: int) -> None:
    """Every name of an option, and every word about it."""
    group = get_command(cli.app)
    shown = CliRunner(env={"COLUMNS": str(columns)}).invoke(cli.app, [*filter(None, [command]), "--help"]).output
    assert max(map(len, shown.splitlines())) <= columns
    assert "…" not in shown
    words = " ".join(shown.split())
    for parameter in (group.commands[command] if command else group).params:
        is_option = parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts) if is_option else (parameter.metavar,):
            assert re.search(rf"(^|[\s{{\[]){re.escape(name)}(?!\w)", shown, re.MULTILINE), name
        assert not parameter.help or " ".join(parameter.help.split()) in words, parameter.name
    for other in group.commands.values() if not command else ():
        assert other.get_short_help_str(limit=1000) in words


@pytest.mark.parametrize("command", sorted(get_command(cli.app).commands))
def test_help_is_short(command: str) -> None:
    """An option takes three lines and its default, and no example is wrapped."""
    group = get_command(cli.app)
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(cli.app, [command, "--help"]).output
    for entry in re.split(r"\n(?=\S|\n| {2}\S)", shown.partition("\nOptions")[2]):
        text = [
            line for line in entry.splitlines() if not line.startswith("  -") or line[32:].strip() or "  " in line[2:].strip()
        ]
        assert len(text) <= 4, entry
    for line in (group.commands[command].help or "").splitlines():
        assert not line.strip().startswith("$") or line.strip() in map(str.strip, shown.splitlines())


def test_commands_are_in_groups() -> None:
    shown = invoke("--help").output
    heads = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert heads == ["Options:", "Data:", "Train:", "Serve and deploy:", "Tools:"]


def test_version() -> None:
    assert re.fullmatch(r"halohop 0\.\d+\.\d+(\.dev\d+)? \(torch \S+, Python 3\.\S+\)\n", invoke("--version").output)


def test_help_and_version_do_not_wait_for_torch() -> None:
    script = "import sys; from halohop.launch import cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0


def test_fields_are_options() -> None:
    """All but those that a run folder at a URL decides, and the interval of an event that few need."""
    for command, kind in ((cli.train, TrainConfig), (cli.infer, InferConfig)):
        options = {"deadline" if name == "deadline_s" else name for name in kind.__dataclass_fields__}
        assert options - {*inspect.signature(command).parameters} <= {"log_every", "copy_to"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("partition", "synthetic:tiny", "out", "--halo", "raw_id,when"), "halo names 'when', which is no column of nodes"),
        (("train", "nowhere:small"), "'nowhere:small' is neither a file nor a known source"),
        (("train", "synthetic:giant"), "giant"),
        (("bench", "nothing", "--size", "tiny"), "unknown benchmark"),
        (("train", "x", "--dropout", "1.5"), "--dropout 1.5"),
        (("train", "x", "--fanout", "5,-3"), "--fanout 5,-3 must be"),
        (("train", "x", "--eval-fanout", "5"), "another number of hops"),
        (("infer", "nowhere", "--checkpoint", "nothing", "--batch-size", "0"), "--batch-size 0 must be"),
        (("infer", "h:1,h:2", "--checkpoint", "nothing"), "servers (h:1,h:2) do not compute layer by layer"),
        (("serve", "nowhere", "--column", "y"), "column 'y' is not like y=labels.npy"),
        (("serve", "nowhere", "--column", "a__b:y=y.npy"), "column 'a__b:y=y.npy' is not like"),
        (("serve", "nowhere", "--column", "y=1.npy", "--column", "node:y=2.npy"), "column 'y' of 'node' is given twice"),
        (("partition", "nowhere.npz", "out"), "'nowhere.npz' is neither a file nor a known source"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_2(
    arguments: tuple[str, ...], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert complaint in result.output
    assert result.output.startswith("error: ")
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("train",), "PARTS_OR_SOURCE"),
        (("train", "x", "--fanout", "5;3"), "'5;3' is not like 15,10,5"),
        (("train", "x", "--fanout", ""), "'' is not like 15,10,5"),
        (("train", "x", "--eval-fanout", "all"), "'all' is not like 15,10,5"),
        (("train", "x", "--model", "mlp"), "mlp"),
        (("train", "x", "--nodes", "0"), "--nodes"),
        (("train", "x", "--config", "none.toml"), "there is no configuration file none.toml"),
        (("infer", "x"), "--checkpoint"),
        (("partition", "x", "y", "--method", "magic"), "magic"),
        (("frobnicate",), "frobnicate"),
    ],
)
def test_usage_errors_exit_2(arguments: tuple[str, ...], complaint: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert complaint in result.output


def test_a_data_set_that_is_not_there_is_one_line_and_exit_1(tmp_path: Path) -> None:
    result = invoke("inspect", tmp_path / "nowhere")
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "nowhere" in result.output


def test_debug_lets_the_traceback_through() -> None:
    result = invoke("--debug", "train", "x", "--dropout", "7")
    assert isinstance(result.exception, InputError)


def test_options_come_from_the_file_and_the_command_line_wins(started: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('fanout = [7, 3]\nbatch-size = 64\neval_fanout = [9, 9]\nlr = 0.5\nnodes = 3\nmodel = "gat"\ndeadline = 12\n')
    result = invoke("train", "parts", "--config", file, "--lr", "0.25", "--out", "o")
    assert result.exit_code == 0, result.output
    config = started[0]["config"]
    assert (config.fanout, config.batch_size, config.eval_fanout) == ((7, 3), 64, (9, 9))
    assert (config.lr, config.model, config.deadline_s) == (0.25, "gat", 12)
    assert (started[0]["nodes"], started[0]["source"].num_parts) == (3, 3)
    assert config.hidden == TrainConfig(parts="p", out="o").hidden


def test_link_options_come_from_the_file_too(started: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("task: link\nrelation: [user, rates, film]\ndecoder: mlp\nnegatives: 2\nexclude-seed-edges: false\n")
    result = invoke("train", "parts", "--config", file, "--strict-negatives", "--time-attr", "when")
    assert result.exit_code == 0, result.output
    config = started[0]["config"]
    assert (config.task, config.relation, config.decoder) == ("link", ("user", "rates", "film"), "mlp")
    assert (config.negatives, config.strict_negatives, config.exclude_seed_edges) == (2, True, False)
    assert (config.time_attr, config.temporal_strategy, config.dropout_share) == ("when", "last", 0.0)


def test_the_argument_may_stand_in_the_file_too(started: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("parts: somewhere\nfanout: 4\n")
    assert invoke("train", "--config", tmp_path / "run.yaml").exit_code == 0
    assert (started[0]["config"].parts, started[0]["config"].fanout) == ("somewhere", (4,))
    assert re.fullmatch(r"runs/\d{8}-\d{6}", started[0]["config"].out)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("batchsize = 3", "did you mean 'batch_size'"), ("epochs = 'many'", "--epochs"), ("config = 'x'", "config")],
)
def test_a_wrong_file_is_a_usage_error(started: list[dict[str, Any]], tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    result = invoke("train", "parts", "--config", tmp_path / "run.toml")
    assert result.exit_code == 2
    assert complaint in result.output
    assert started == []


def test_servers_take_the_place_of_a_folder(started: list[dict[str, Any]], tmp_path: Path) -> None:
    result = invoke("train", "tcp://h:1,h:2", "--sampling", "client", "--token-file", tmp_path / "secret", "--encrypt")
    assert result.exit_code == 0, result.output
    config = started[0]["config"]
    assert (config.parts, config.sampling) == ("tcp://h:1,h:2", "client")
    assert (config.token_file, config.encrypt) == (str(tmp_path / "secret"), True)


def test_partition_says_which_way_the_edges_go(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\n0,1\n1,2\n")
    (tmp_path / "graph.toml").write_text('[edges.node__to__node]\nfile = "edges.csv"\nsrc = "a"\ndst = "b"\n')
    command = ("partition", tmp_path, tmp_path / "parts", "--method", "random", "--overwrite")
    directed, both = invoke(*command), invoke(*command, "--undirected")
    assert "edges taken as directed: 2 of node to node (100% without a reverse); --undirected" in directed.stderr
    assert "edges that go both ways: 4 of node to node" in both.stderr


@pytest.mark.parametrize("options", [(), ("--worker",)])
def test_partition_says_that_it_made_a_split(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "nodes.csv").write_text("id,y\n" + "".join(f"{node},{node % 2}\n" for node in range(20)))
    for split, said in (("", 1), ("fractions = [0.5, 0.2, 0.2]", 0)):
        (tmp_path / "graph.toml").write_text(f'[nodes.node]\nfile = "nodes.csv"\nid = "id"\nlabel = "y"\n{split}\n')
        made = invoke("partition", tmp_path, tmp_path / f"parts{said}", "--method", "random", *options)
        line = "split of node: none is stored, so labeled nodes are split at random, 60%/20%/20% train/val/test"
        assert made.stderr.count(line) == said


@pytest.mark.parametrize("source", ["synthetic:powerlaw?nodes=1000&edges=9000", "tables"])
def test_partition_looks_for_room_before_it_reads(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tables").mkdir()
    Path("tables/n.csv").write_text("id,f\n" + "0,1\n" * 5000)  # one id again and again, which reading would refuse
    Path("tables/graph.toml").write_text('[nodes.n]\nfile = "n.csv"\nid = "id"\nfeatures = ["f"]\n')
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(chunks.os, "statvfs", lambda path: os.statvfs_result([*real[:4], 1, *real[5:]]))
    done = invoke("partition", source, "parts")
    assert done.exit_code == 1
    assert re.search(r"parts needs .* more, and its disk has .* left; make room there, or choose another", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


def test_partition_says_which_features_are_not_finite(tmp_path: Path) -> None:
    for name, array in (("x", np.array([[1, 2], [3, np.inf]])), ("edge_index", np.array([[0], [1]])), ("edge_attr", np.ones(1))):
        np.save(tmp_path / f"{name}.npy", array)
    made = invoke("partition", tmp_path, tmp_path / "parts", "--method", "random")
    assert "features of node are not finite: x holds inf in row 1" in made.stderr
    assert made.stderr.count("not finite") == 1


def test_partition_then_inspect(tmp_path: Path) -> None:
    made = invoke("partition", "synthetic:tiny", tmp_path / "parts", "--parts", "2", "--method", "random", "--seed", "3")
    assert made.exit_code == 0, made.output
    assert "Partitions" in made.output
    summary = json.loads(invoke("inspect", tmp_path / "parts", "--json").stdout)
    assert (summary["num_parts"], summary["partitioned"]["seed"]) == (2, 3)
    again = invoke("partition", "synthetic:tiny", tmp_path / "parts", "--method", "random")
    assert again.exit_code == 2
    assert f"{tmp_path / 'parts'} exists; choose another folder, or pass --overwrite to replace" in again.output
    assert invoke("partition", "synthetic:tiny", tmp_path / "parts", "--method", "random", "--overwrite").exit_code == 0


def test_partition_by_out_edges(tmp_path: Path) -> None:
    made = invoke("partition", "synthetic:tiny", tmp_path / "parts", "--method", "random", "--edge-dir", "out")
    assert made.exit_code == 0, made.output
    assert "lists of out-edges" in invoke("inspect", tmp_path / "parts").output
    assert json.loads(invoke("inspect", tmp_path / "parts", "--json").stdout)["edge_dir"] == "out"
    refused = invoke("partition", "synthetic:tiny", tmp_path / "other", "--edge-dir", "both")
    assert refused.exit_code == 2
    assert "'both' is not one of 'in', 'out'" in refused.output


def test_verify_says_so(tiny_parts: Path) -> None:
    assert "match their checksums" in invoke("inspect", tiny_parts, "--verify").output
    assert "match their checksums" not in invoke("inspect", tiny_parts).output


def test_torchrun_and_the_options_must_agree(tiny_parts: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    result = invoke("train", tiny_parts, "--nodes", "4", "--out", tmp_path)
    assert result.exit_code == 2
    assert "torchrun decides" in result.output
    result = invoke("train", "synthetic:tiny", "--out", tmp_path)
    assert result.exit_code == 2
    assert "halohop partition synthetic:tiny PARTS" in result.output
    result = invoke("infer", tiny_parts, "--checkpoint", "x", "--trainers", "3", "--out", tmp_path)
    assert result.exit_code == 2
    assert "torchrun decides" in result.output


def test_tasks_of_srun_are_ranks(tiny_parts: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not as many runs of one trainer, which would write over each other."""
    for name, value in (("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2"), ("SLURM_TASKS_PER_NODE", "2"), ("SLURM_LOCALID", "1")):
        monkeypatch.setenv(name, value)
    result = invoke("train", tiny_parts, "--trainers", "3", "--out", tmp_path)
    assert result.exit_code == 2
    assert "a launcher has started 2 ranks" in result.output
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    for command in (("train",), ("infer", "--fanout=2")):
        extra = ["--checkpoint", tmp_path / "none"] if command[0] == "infer" else []
        result = invoke(command[0], tiny_parts, *command[1:], *extra, "--out", tmp_path)
        assert result.exit_code == 1
        assert "rank 1 found no process group of 2" in result.output
        assert "MASTER_ADDR" in result.output
    assert not list(tmp_path.iterdir())


def test_bench_prints_what_it_measured():
    result = CliRunner().invoke(cli.app, ["bench", "partitioned", "--size", "tiny", "--rounds", "1", "--fanout", "3,2"])
    assert result.exit_code == 0, result.output
    assert "edges" in result.output
    assert CliRunner().invoke(cli.app, ["bench", "nothing", "--size", "tiny"]).exit_code == 2


def test_bench_refuses_a_fanout_that_is_none() -> None:
    result = invoke("bench", "--fanout", "3,x")
    assert result.exit_code == 2
    assert "'3,x' is not like 15,10,5" in result.output
