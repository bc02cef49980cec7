"""What all CPU kernels share: how they are compiled, and what Numba has no words for."""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import intrinsic

from halohop.ops import cpu_kept

Function = TypeVar("Function", bound=Callable[..., Any])


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """Compiles at the first call for the types of its arguments, unless its machine code is on the disk."""

    def __init__(self, function: Callable[..., Any], locals: Any = None, targetoptions: Any = None, **options: Any) -> None:
        super().__init__(function, locals or {}, targetoptions or {}, **options)
        named = function.__globals__.values()
        self._cache: cpu_kept.MachineCode = cpu_kept.MachineCode(
            function, [other._cache for other in named if isinstance(other, _Kernel)]
        )

    def compile(self, sig: Any) -> Any:
        """One thread and one process at a time compiles the same; the others wait, and load."""
        _compile_before_forks()
        with global_compiler_lock, self._cache.alone(sig):
            return super().compile(sig)


def kernel(function: Function) -> Function:
    """Compiles `function` at its first call for the argument types of that call, and keeps the machine code on disk.

    Kernels are serial and release the GIL: parallelism is several batches in flight. They check ids themselves where memory
    safety needs it; Numba's own bounds checks are off. Integers inside a kernel are all unsigned or all signed: Numba turns a
    mixture of int64 and uint64 into float64.

    A kernel whose name begins with an underscore is called by kernels only, of any module: it is compiled without what Python
    needs to call it.

    A change of a kernel's source file is noticed, of this one, and of those whose kernels its module imports by name.
    """
    options = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": False, "no_cfunc_wrapper": True}
    helper = function.__name__.startswith("_")
    compiled: Function = _Kernel(function, targetoptions=options | {"no_cpython_wrapper": helper})
    return compiled


def load_compiler() -> None:
    """Makes Numba load all that it compiles with, which takes half a second; otherwise the first kernel to compile does."""
    cpu_target.target_context.refresh()


@cache
def _compile_before_forks() -> None:
    """From now on a fork waits for what another thread compiles: in the new process that thread would hold the lock for ever."""
    if hasattr(os, "register_at_fork"):
        acquire, release = global_compiler_lock.acquire, global_compiler_lock.release
        os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release)


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


def _copy_words(typing_context: Any, out: Any, into: Any, source: Any, begin: Any, count: Any) -> Any:
    """``copy_words(out, into, source, begin, count)``: words of one array to another, which lies elsewhere, as memcpy does it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def address(array: int, index: int) -> Any:
            data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
            return builder.gep(data, [arguments[index]])

        num_bytes = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        cgutils.raw_memcpy(builder, address(0, 1), address(2, 3), arguments[4], num_bytes)
        return context.get_dummy_value()

    return types.void(out, types.uint64, source, types.uint64, types.uint64), generate


copy_words: Any = intrinsic(_copy_words)


def _pointer(typing_context: Any, address: Any) -> Any:
    """``pointer(address)``: what `numba.carray` makes an array of, from an address as an unsigned word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.uint64), generate


pointer: Any = intrinsic(_pointer)


def kernel_files(folder: Path) -> list[Path]:
    """The modules that hold kernels, this one among them, by name."""
    return sorted(folder.glob("cpu_*.py"))


def fingerprint() -> str:
    """Changes whenever kept machine code cannot be used again: another source, compiler, Python or processor."""
    digest = hashlib.blake2b(digest_size=8)
    for path in kernel_files(Path(__file__).parent):
        digest.update(path.read_bytes())
    for text in cpu_kept.system():
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()
