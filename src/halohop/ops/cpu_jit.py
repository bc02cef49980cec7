"""What all CPU kernels share: how they are compiled, and the prefetch instruction."""

import hashlib
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from halohop.ops import cpu_kept

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compiles `function` at its first call for the argument types of that call, and keeps the machine code on disk.

    Kernels are serial and release the GIL: parallelism is several batches in flight. They check ids themselves where memory
    safety needs it; Numba's own bounds checks are off. Integers inside a kernel are all unsigned or all signed: Numba turns a
    mixture of int64 and uint64 into float64.

    Numba notices a change of a kernel's source file and compiles again, but not a change of another file that a helper lives in.
    So the helpers of a kernel stand in the kernel's own module. `prefetch` is the exception: a stale one is slower, never wrong.
    """
    options = {"nogil": True, "error_model": "numpy", "boundscheck": False}
    if cpu_kept.is_read_only():
        kept: Function = cpu_kept.with_kept_code(function, **options)
        return kept
    try:
        compiled: Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no directory to keep machine code in (read-only container without a home): compile in every process
        compiled = numba.njit(**options)(function)
    return compiled


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """``prefetch(array, index)``: asks for the cache line of array[index] ahead of its use. Never faults, whatever the index."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_value, index_value = arguments
        data = context.make_array(signature.args[0])(context, builder, array_value).data
        address = builder.bitcast(builder.gep(data, [index_value]), cgutils.voidptr_t)
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        read, keep_in_all_levels, data_cache = int32(0), int32(3), int32(1)
        builder.call(function, [address, read, keep_in_all_levels, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


prefetch: Any = intrinsic(_prefetch)


def cache_directory(compiled: Any) -> Path | None:
    """Where the machine code of this kernel is kept; None if nowhere."""
    path = compiled.stats.cache_path
    return None if path is None else Path(path)


def kernel_files(folder: Path) -> list[Path]:
    """The modules that hold kernels, this one among them, by name."""
    return sorted(folder.glob("cpu_*.py"))


def fingerprint() -> str:
    """Changes whenever kept machine code cannot be used again: another source, compiler, Python or processor."""
    digest = hashlib.blake2b(digest_size=8)
    for path in kernel_files(Path(__file__).parent):
        digest.update(path.read_bytes())
    for text in (numba.__version__, platform.python_version(), platform.machine(), *cpu_kept.processor()):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()
