"""The decorators of kernels: loops over packets and messages, compiled by Numba or run as plain Python.

A kernel is a module-level function: NumPy arrays and integers in, arrays filled in place, no objects, no
exceptions. With `KDISSECT_JIT=0` in the environment the same source runs uncompiled, as some tests do.
`kernel_cache` decides where compiled code is kept, and when a run does not compile.
"""

import os
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

from kdissect.cache_directory import check_private
from kdissect.jit import kernel_cache
from kdissect.jit.inner_code import SELDOM, THIN, make_no_inner_code, make_one_version
from kdissect.jit.kernel_cache import forget_damaged_files, ignore_location
from kdissect.jit.late_bitcode import parse_bitcode_late
from kdissect.jit.late_registries import fill_registries_late
from kdissect.startup_switch import Shortcut, is_on


@cache
def _numba() -> Any:
    """Return Numba, with the cache of kernels."""
    check_private(Path(os.environ.setdefault("NUMBA_CACHE_DIR", str(kernel_cache.kernel_home()))))
    import numba
    from numba.core import caching

    forget_damaged_files(caching)
    ignore_location(caching)
    make_no_inner_code()
    make_one_version()
    if is_on(Shortcut.LATE_BITCODE):
        parse_bitcode_late()
    if is_on(Shortcut.LATE_REGISTRIES):
        fill_registries_late()
    return numba


def _compiler(**options: Any) -> Callable[[Any], Any]:
    if os.environ.get(kernel_cache.SWITCH) == "0":
        # Kernels that hash let products wrap around, of which NumPy warns and compiled code does not.
        warnings.filterwarnings("ignore", "overflow encountered in scalar", RuntimeWarning, r"kdissect\.")
        return lambda function: function
    compiler: Callable[[Any], Any] = _numba().njit(nogil=True, error_model="numpy", **options)
    return compiler


jit: Callable[[Any], Any] = _compiler(cache=True)

# Numba counts a reference, atomically, for every array that is passed to another function: up to three
# quarters of the time of a kernel that calls many small functions. A flat kernel allocates no array and keeps
# none, so no array can be freed while it runs: its caller in Python holds them. The compiler refuses a flat
# kernel that allocates.
jit_flat: Callable[[Any], Any] = _compiler(cache=True, _nrt=False)

# A flat kernel that only other kernels call. It becomes part of them, so it needs no cache and no entry point
# for Python (calling it from Python would crash; a test checks that nobody does).
jit_inner: Callable[[Any], Any] = _compiler(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)

_copied: Callable[[Any], Any] = _compiler(
    _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True
)


def jit_thin(function: Any) -> Any:
    """Return an inner kernel that does little but call large ones: only its callers are optimised."""
    THIN.add(function)
    return jit_inner(function)


def jit_inline(function: Any) -> Any:
    """Return an inner kernel that the compiler copies to wherever it is called, and optimises there.

    The compiler passes every array to a function as five and more numbers, and decides by itself whether to
    copy small functions only. For a kernel that was cut into parts called once or twice each, copying saves
    half of the time; elsewhere it only makes code longer.
    """
    THIN.add(function)
    return _copied(function)


def jit_seldom(function: Any) -> Any:
    """Return a flat kernel that runs seldom: what it calls is optimised, but not anew together with it."""
    SELDOM.add(function)
    return jit_flat(function)


def _copier() -> Callable[..., None]:
    if os.environ.get(kernel_cache.SWITCH) == "0":
        return _copy_slices
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    def _copy(_typing: Any, _source: Any, _begin: Any, _target: Any, _at: Any, _count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def address(array: int, index: int) -> Any:
                kind, value = signature.args[array], arguments[array]
                data = context.make_array(kind)(context, builder, value).data
                return builder.gep(data, [arguments[index]])

            cgutils.raw_memmove(  # type: ignore[no-untyped-call]
                builder, address(2, 3), address(0, 1), arguments[4], ir.IntType(64)(1)
            )
            return context.get_dummy_value()

        arrays = types.Array(types.uint8, 1, "C")
        return types.void(arrays, types.int64, arrays, types.int64, types.int64), generate

    return cast("Callable[..., None]", intrinsic(_copy))


def _prefetcher() -> Callable[..., None]:
    if os.environ.get(kernel_cache.SWITCH) == "0":
        return _ignore
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    def _fetch(_typing: Any, array: Any, _index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            address, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [address, number, number, number])
            prefetch = builder.module.declare_intrinsic("llvm.prefetch", [address], kind)
            reading, keeping, data_cache = number(0), number(3), number(1)
            place = builder.bitcast(builder.gep(data, [arguments[1]]), address)
            builder.call(prefetch, [place, reading, keeping, data_cache])
            return context.get_dummy_value()

        return types.void(array, types.int64), generate

    return cast("Callable[..., None]", intrinsic(_fetch))


def _file_reader() -> Callable[..., int]:
    if os.environ.get(kernel_cache.SWITCH) == "0":
        return _read_slice
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    def _read(_typing: Any, _descriptor: Any, target: Any, _at: Any, _count: Any, _offset: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[1])(context, builder, arguments[1]).data
            number, address = ir.IntType(64), ir.IntType(8).as_pointer()
            kind = ir.FunctionType(number, [ir.IntType(32), address, number, number])
            declare: Any = cgutils.get_or_insert_function
            pread = declare(builder.module, kind, "pread")
            descriptor = builder.trunc(arguments[0], ir.IntType(32))
            place = builder.gep(data, [arguments[2]])
            return builder.call(pread, [descriptor, place, arguments[3], arguments[4]])

        whole = types.int64
        return whole(whole, target, whole, whole, whole), generate

    return cast("Callable[..., int]", intrinsic(_read))


def _read_slice(descriptor: int, target: Any, at: int, count: int, offset: int) -> int:
    return os.preadv(descriptor, [memoryview(target)[at : at + count]], offset)


def _ignore(_array: Any, _index: int) -> None:
    pass


def _copy_slices(source: Any, begin: int, target: Any, at: int, count: int) -> None:
    target[at : at + count] = source[begin : begin + count]


# copy_bytes(source, begin, target, at, count) copies bytes between arrays of uint8, or within one; the caller
# checks the bounds. Within one array the compiler must assume that the ranges overlap: a loop moved 0.6 GB/s
# there, this 28 GB/s.
copy_bytes: Callable[..., None] = _copier()

# prefetch(array, index) loads the cache line of an element in the background. All rows of a table count as
# one array. Any index is allowed, since nothing is read. Elements that are spread over a large array take
# longer to arrive than to process.
prefetch: Callable[..., None] = _prefetcher()

# read_file(descriptor, target, at, count, offset) reads bytes of a file into an array of uint8, as pread(2)
# does, and returns how many, or -1 for an error. The caller checks the bounds of the array. A call of
# `os.preadv` takes three times as long as reading 150 bytes takes the system.
read_file: Callable[..., int] = _file_reader()
