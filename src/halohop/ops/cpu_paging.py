"""The CPU kernel that asks the system for pages of mapped files before they are read, without the GIL."""

import mmap
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

u64 = np.uint64

_PAGE = u64(mmap.PAGESIZE)
_WILL_NEED = np.int32(mmap.MADV_WILLNEED)
_ZERO, _ONE = u64(0), u64(1)


def _madvise(typing_context: Any, address: Any, size: Any, advice: Any) -> Any:
    """``madvise(address, size, advice)`` of the C library."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address_value, size_value, advice_value = arguments
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(int32, [cgutils.voidptr_t, ir.IntType(64), int32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "madvise")
        return builder.call(function, [builder.inttoptr(address_value, cgutils.voidptr_t), size_value, advice_value])

    return types.int32(types.uint64, types.uint64, types.int32), generate


_advise: Any = intrinsic(_madvise)


@kernel
def will_need(addresses: NDArray[Any], size: Any) -> Any:
    """Starts reading the pages of `size` bytes from each address on, where they are not in memory; addresses never fall.

    Pages side by side are asked for at once. Returns how many such runs there were. What the system refuses to read ahead is
    read when it is needed, so its answer does not matter.
    """
    if addresses.size == 0:
        return _ZERO
    runs, begin, end = _ZERO, _ZERO, _ZERO
    for i in range(addresses.size):
        first = addresses[i] & ~(_PAGE - _ONE)
        if first > end:
            if end > begin:
                _advise(begin, end - begin, _WILL_NEED)
                runs += _ONE
            begin = first
        end = max(end, (addresses[i] + size + _PAGE - _ONE) & ~(_PAGE - _ONE))
    _advise(begin, end - begin, _WILL_NEED)
    return runs + _ONE
