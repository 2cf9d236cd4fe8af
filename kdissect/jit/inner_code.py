"""Less work for Numba's compiler on kernels that call each other.

Numba optimises each function together with all that it calls, and makes machine code of it, as soon as it
is compiled. The machine code of an inner kernel never runs: its bitcode becomes part of the kernels that call
it. So inner kernels get none here. Those that do little but call large ones (`jit_thin`) are not optimised,
either: the large ones would be optimised once more for each of them. A kernel that runs seldom (`jit_seldom`)
is only put together from what it calls, which has been optimised.

Numba also compiles a function anew for each constant that it is called with. Here constants are numbers like
any other: LLVM puts them in where it copies a function.
"""

from importlib import import_module
from typing import Any

THIN = set[Any]()
"""The functions that are not optimised by themselves."""

SELDOM = set[Any]()
"""The functions that run seldom: optimising them takes longer than it saves."""


def make_one_version() -> None:
    """Make Numba compile kernels of the package for types alone, not for each constant argument."""
    types: Any = import_module("numba.core.types")
    dispatcher: Any = import_module("numba.core.dispatcher")._DispatcherBase  # noqa: SLF001
    get_call_template = dispatcher.get_call_template

    def get_template_of_types(self: Any, args: Any, kws: Any) -> Any:
        if _is_own(self.py_func.__module__):
            args = tuple(types.unliteral(one) for one in args)
            kws = {name: types.unliteral(one) for name, one in kws.items()}
        return get_call_template(self, args, kws)

    dispatcher.get_call_template = get_template_of_types


def _is_own(module: object) -> bool:
    return str(module).startswith("kdissect.")


def make_no_inner_code() -> None:
    """Make Numba keep the bitcode alone of functions of the package that have no entry point for Python.

    Those in THIN are not optimised, either; those in SELDOM are put together without optimising.

    An environment is what Numba's code needs to make objects of Python. It is given to the machine code of
    its function, which lies in the first kernel that has become ready since.
    """
    codegen: Any = import_module("numba.core.codegen")
    config: Any = import_module("numba.core.config")
    lowering: Any = import_module("numba.core.typed_passes").NativeLowering
    run_pass, set_env = lowering.run_pass, codegen.JITCPUCodegen.set_env
    make_ready = codegen.CPUCodeLibrary._finalize_final_module  # noqa: SLF001
    optimise = codegen.CPUCodeLibrary._optimize_final_module  # noqa: SLF001
    inner = set[str]()  # names of environments
    waiting = dict[str, Any]()

    def run_marked(self: Any, state: Any) -> Any:
        if _is_own(state.func_id.modname) and state.library is None:
            library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
            library.enable_object_caching()
            library.is_inner = state.flags.no_cpython_wrapper
            library.is_thin = state.func_id.func in THIN
            library.is_seldom = state.func_id.func in SELDOM
            state.library = library
        return run_pass(self, state)

    def make_kernel_ready(self: Any) -> None:
        if not getattr(self, "is_inner", False):
            make_ready(self)
            return
        inner.update(variable.name for variable in self._final_module.global_variables)
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def optimise_as_marked(self: Any) -> None:
        if getattr(self, "is_thin", False):
            return
        usual = config.OPT
        config.OPT = 0 if getattr(self, "is_seldom", False) else usual
        try:
            optimise(self)
        finally:
            config.OPT = usual

    def set_env_later(self: Any, name: str, environment: Any) -> None:
        if name in inner and not self._engine.is_symbol_defined(name):
            waiting[name] = environment
            return
        set_env(self, name, environment)
        for other in [other for other in waiting if self._engine.is_symbol_defined(other)]:
            set_env(self, other, waiting.pop(other))

    lowering.run_pass = run_marked
    codegen.CPUCodeLibrary._finalize_final_module = make_kernel_ready  # noqa: SLF001
    codegen.CPUCodeLibrary._optimize_final_module = optimise_as_marked  # noqa: SLF001
    codegen.JITCPUCodegen.set_env = set_env_later
