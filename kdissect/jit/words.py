"""Instructions of the processor that plain loops do not become.

`big_16`, `big_32` and `big_64` read a signed integer in network order at any offset of an array of bytes. The
compiler does not join the bytes of a number into one access, since an index may count from the end. The
caller checks that the bytes are there. Arrays are of uint8 and contiguous. `lowest_bit` finds a bit of a
number.
"""

import os
import struct
from collections.abc import Callable
from typing import Any, cast

from kdissect.jit import kernel_cache

_LAYOUTS = {2: struct.Struct(">h"), 4: struct.Struct(">i"), 8: struct.Struct(">q")}


def _slow_loader(layout: struct.Struct) -> Callable[[Any, int], int]:
    def load(array: Any, at: int) -> int:
        return int(layout.unpack_from(array, at)[0])

    return load


def _loader(size: int) -> Callable[[Any, int], int]:
    """Return the function that reads a signed integer of so many bytes."""
    if os.environ.get(kernel_cache.SWITCH) == "0":
        return _slow_loader(_LAYOUTS[size])
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    def _load(_typing: Any, array: Any, _at: Any) -> Any:
        if not (isinstance(array, types.Array) and array.layout == "C" and array.dtype == types.uint8):
            raise TypeError(f"integers are read from contiguous arrays of uint8, not from {array}")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            place = builder.gep(data, [arguments[1]])
            value = builder.load(builder.bitcast(place, ir.IntType(8 * size).as_pointer()), align=1)
            return builder.sext(builder.bswap(value), ir.IntType(64)) if size < 8 else builder.bswap(value)

        return types.int64(array, types.int64), generate

    return cast("Callable[[Any, int], int]", intrinsic(_load))


def _bit_finder() -> Callable[[int], int]:
    if os.environ.get(kernel_cache.SWITCH) == "0":
        return lambda value: (value & -value).bit_length() - 1
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    def _find(_typing: Any, _value: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], ir.IntType(1)(1))

        return types.int64(types.int64), generate

    return cast("Callable[[int], int]", intrinsic(_find))


big_16, big_32, big_64 = _loader(2), _loader(4), _loader(8)
"""big_32(array, at) returns 4 bytes in network order as a signed integer; the others are alike."""
lowest_bit = _bit_finder()
"""lowest_bit(value) returns the number of the lowest bit that is set, of a value that is not 0."""
