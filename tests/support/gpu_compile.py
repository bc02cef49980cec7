"""Compiles kernels of a GPU ahead of time, and reads from the machine code what they need.

    python -m tests.support.gpu_compile gpu_rows    kernels whose names begin so; all without

A process of its own, for Triton either interprets kernels or compiles them, and decides when it is imported. It needs no GPU, no
driver and no CUDA: Triton's wheel has the assembler. What was compiled once is kept in Triton's cache.
"""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import halohop.ops
from tests.support.gpu_signatures import LAUNCHES, Launch

OPS = Path(halohop.ops.__file__).parent
TARGETS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}
"""An A100, an H100, an MI300."""

_LOOSE = re.compile(r"\b(?:fma|mad)\.[\w.]*f(?:32|64)|\.approx\b|\.ftz\b|\bdiv\.full\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What a kernel takes of a device, or why it was not compiled; spills are bytes of memory that stand in for registers.

    Args:
        loose: instructions of NVIDIA's that round otherwise than IEEE 754 says, or not between two operations.
    """

    kernel: str
    launch: int
    target: str
    error: str = ""
    registers: int = 0
    spills: int = 0
    shared: int = 0
    loose: int = 0


def kernels() -> dict[str, Any]:
    """Every kernel of ops/gpu_*.py by "module.kernel"."""
    found = {}
    for path in sorted(OPS.glob("gpu_*.py")):
        module = importlib.import_module(f"halohop.ops.{path.stem}")
        for name, value in vars(module).items():
            function = getattr(value, "fn", None)
            if getattr(function, "__module__", "") == module.__name__ and function.__annotations__["return"] is None:
                found[f"{path.stem}.{name}"] = value
    return found


def compile_all(only: str = "") -> Iterator[Compiled]:
    """Compiles each launch of the kernels whose names begin with `only`, for each of the targets."""
    assert not os.environ.get("TRITON_INTERPRET"), "Triton interprets kernels here"
    for name, kernel in kernels().items():
        if name.startswith(only):
            for number, launch in enumerate(LAUNCHES.get(name, [])):
                for target in TARGETS:
                    yield _compile(kernel, name, number, launch, target)


def _compile(kernel: Any, name: str, number: int, launch: Launch, target: str) -> Compiled:
    import triton
    from triton.backends.compiler import GPUTarget

    made = {"kernel": name, "launch": number, "target": target}
    options = {"enable_fp_fusion": False} | launch.options
    try:
        for other in ("i64", "1"):
            _translate(_source(kernel, launch, other), GPUTarget(*TARGETS[target]), options)
        done = triton.compile(_source(kernel, launch, "i32"), target=GPUTarget(*TARGETS[target]), options=options)
    except Exception as error:
        return Compiled(**made, error=f"{type(error).__name__}: {str(error)[-1500:]}")
    registers, spills = _of_cubin(done.asm["cubin"]) if "cubin" in done.asm else _of_amdgcn(done.asm["amdgcn"])
    loose = len(re.findall(_LOOSE, done.asm.get("ptx", "")))
    return Compiled(**made, registers=registers, spills=spills, shared=done.metadata.shared, loose=loose)


def _source(kernel: Any, launch: Launch, integer: str) -> Any:
    """The kernel with its types; `integer`: what numbers are of which the kernel does not say it: "i32", "i64", or "1" where all
    of them are constants."""
    from triton.compiler import ASTSource

    constants = {key: _constant(value) for key, value in launch.constants.items()}
    types = [one if one != "int" else integer for one in launch.types.split()]
    names = [name for name in kernel.arg_names if name not in constants]
    assert len(names) == len(types), f"{len(types)} types for {names}"
    said = {param.name: param.annotation_type for param in kernel.params}
    signature = {name: said[name] or one for name, one in zip(names, types, strict=True)}
    assert all(one in (integer, signature[name]) for name, one in zip(names, types, strict=True)), f"{types} for {signature}"
    constants |= {name: 1 for name, one in signature.items() if one == "1"}
    if "constants" in _parameters(ASTSource):  # Triton 3.2
        return ASTSource(kernel, {name: one for name, one in signature.items() if name not in constants}, constants=constants)
    signature = {name: "constexpr" if name in constants else signature[name] for name in kernel.arg_names}
    return ASTSource(fn=kernel, signature=signature, constexprs=constants)


def _translate(source: Any, target: Any, options: dict[str, Any]) -> None:
    """Only into Triton's own language: whether the types of its operations agree."""
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend

    backend = make_backend(target)
    parsed = backend.parse_options(options)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions = backend.get_codegen_implementation
    known = {"target": target, "options": parsed, "module_map": backend.get_module_map(), "context": context}
    known["codegen_fns"] = functions(parsed) if _parameters(functions) else functions()  # Triton 3.2 asks for less
    source.make_ir(**{name: known[name] for name in _parameters(source.make_ir)})


def _parameters(called: Any) -> list[str]:
    """Names of the parameters, which differ between releases of Triton."""
    return list(inspect.signature(called).parameters)


def _constant(value: Any) -> Any:
    import triton.language as tl

    return getattr(tl, value.removeprefix("tl.")) if isinstance(value, str) and value.startswith("tl.") else value


def _of_cubin(code: bytes) -> tuple[int, int]:
    """Registers of a thread, and bytes of its stack: these kernels have no arrays, so all of it is spilled registers."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(prefix="halohop", suffix=".cubin") as file:
        file.write(code)
        file.flush()
        said = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", said)}
    return found["REG"], found["STACK"] + found["LOCAL"]


def _of_amdgcn(code: str) -> tuple[int, int]:
    """Vector registers of a thread, and bytes of those that were spilled."""
    found = {key: int(value) for key, value in re.findall(r"\.(vgpr_count|vgpr_spill_count|sgpr_spill_count):\s+(\d+)", code)}
    return found["vgpr_count"], 4 * (found["vgpr_spill_count"] + found["sgpr_spill_count"])


if __name__ == "__main__":
    for result in compile_all(*sys.argv[1:2]):
        print(json.dumps(asdict(result)), flush=True)
