"""`halohop compile`: machine code of all kernels, made beforehand."""

import os
import subprocess
import sys
from pathlib import Path

import typer

from halohop.errors import InputError
from halohop.files.aside import writing

_PROGRAM = """
import sys
from halohop import ops
from halohop.errors import HalohopError
try:
    ops.compile_kernels()
except HalohopError as error:
    sys.exit(f"halohop: {error}")
"""


_LOOK_UP = """
import sys
from llvmlite import binding
binding.initialize_native_target()
binding.Target.from_default_triple().create_target_machine(cpu=sys.argv[1])
"""
"""LLVM prints a warning about a processor that it does not know, and fails when it compiles for it."""


def compile_for(into: Path | None, cpu: str | None) -> None:
    """Compiles all kernels in another process, since Numba looks at the environment once, when it is imported.

    Args:
        into: the folder; None: where they go otherwise.
        cpu: name of the processor, as LLVM calls it; None: as otherwise.

    Raises:
        InputError: LLVM does not know the processor.
        WriteError: the folder cannot be made.
        Exit: with the other process's exit code, if that is not 0.
    """
    chosen: dict[str, str] = {}
    if (
        cpu is not None
        and b"not a recognized" in subprocess.run([sys.executable, "-c", _LOOK_UP, cpu], capture_output=True).stderr
    ):
        known = "generic, x86-64-v2, x86-64-v3 or x86-64-v4"
        raise InputError(
            f"--cpu {cpu} is not a processor that LLVM knows; use {known}, or leave it out to compile for this machine"
        )
    if into is not None:
        with writing(into):
            into.mkdir(parents=True, exist_ok=True)
        chosen["NUMBA_CACHE_DIR"] = str(into.absolute())
    if cpu is not None:
        chosen |= {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""}
    code = subprocess.run([sys.executable, "-c", _PROGRAM], env=os.environ | chosen, check=False).returncode
    if code:
        raise typer.Exit(code if code > 0 else 128 - code)
    if chosen:
        typer.echo("export " + " ".join(f"{name}={value!r}" for name, value in chosen.items()))
