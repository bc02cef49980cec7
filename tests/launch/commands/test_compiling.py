import shlex

import pytest
from typer.testing import CliRunner

from halohop.launch.cli import app
from halohop.launch.commands import compiling


def test_machine_code_goes_where_it_is_told_and_the_environment_is_printed(tmp_path, monkeypatch):
    """Compiling everything takes long: here the kernels are those that take none."""
    monkeypatch.setattr(compiling, "_PROGRAM", SMALL)
    result = CliRunner().invoke(app, ["compile", "--into", str(tmp_path / "kernels"), "--cpu", "generic"])
    assert result.exit_code == 0, result.output
    exported = dict(word.split("=", 1) for word in shlex.split(result.output.splitlines()[-1])[1:])
    assert exported == {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    assert [file.name.split("-")[0] for file in (tmp_path / "kernels/halohop").glob("*.kernel")] == ["cpu_index.list_segments"]


SMALL = """
import numpy
from halohop.ops import cpu_index
cpu_index.list_segments(*[numpy.zeros(0, numpy.int64)] * 3)
"""


@pytest.mark.full
def test_what_cannot_be_compiled_is_said_in_one_line(monkeypatch, capfd):
    program = compiling._PROGRAM.replace("ops.compile_kernels()", "raise HalohopError('this processor cannot')")
    monkeypatch.setattr(compiling, "_PROGRAM", program)
    assert CliRunner().invoke(app, ["compile"]).exit_code == 1
    assert capfd.readouterr().err == "halohop: this processor cannot\n"


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "kernels").touch()
    result = CliRunner().invoke(app, ["compile", "--into", str(tmp_path / "kernels" / "deeper")])
    assert result.exit_code != 0
    assert "kernels/deeper" in str(result.exception) + result.output
