"""Compiled kernels are loaded without their bitcode.

Numba keeps two forms of a kernel in its cache: machine code, which runs, and bitcode, from which another
kernel that calls this one is compiled. It parses the bitcode of each kernel that it loads, which takes most
of the time of loading. Nothing is compiled in most runs. So bitcode stays unparsed here until something is
compiled that needs it.
"""

from typing import Any


def parse_bitcode_late() -> None:
    """Make Numba parse the bitcode of a kernel from its cache when another kernel is linked with it."""
    from llvmlite import binding
    from numba.core import codegen as numba_codegen

    library_class: Any = numba_codegen.JITCodeLibrary

    class LateLibrary(library_class):  # type: ignore[misc] # of a class that has no types
        """The compiled code of a kernel, whose `bitcode` may be unparsed."""

        bitcode: bytes | None = None

        @classmethod
        def _unserialize(cls, codegen: Any, state: Any) -> Any:
            name, kind, contents = state
            if kind != "object":
                return super()._unserialize(codegen, state)
            machine_code, bitcode = contents
            library = codegen.create_library(name)
            library.enable_object_caching()
            library._set_compiled_object(machine_code)  # noqa: SLF001
            library._finalize_final_module()  # noqa: SLF001
            library.bitcode = bitcode
            return library

        def _get_module_for_linking(self) -> Any:
            self._parse()
            return super()._get_module_for_linking()

        def get_pointer_to_function(self, name: str) -> int:
            """Return the address of a function; 0 if the kernel has none of that name.

            Numba looks a name up among those of parsed bitcode. LLVM, which ends the process if it does not
            know a name, knows those of machine code too. The bitcode lists its names as they are.
            """
            if self.bitcode is not None and name.encode() in self.bitcode:
                return int(self._codegen._engine.get_function_address(name))  # noqa: SLF001
            self._parse()
            return int(super().get_pointer_to_function(name))

        def _parse(self) -> None:
            if self.bitcode is not None:
                self._shared_module = binding.parse_bitcode(self.bitcode)
                self._codegen._engine._load_defined_symbols(self._shared_module)  # noqa: SLF001
                self.bitcode = None

    target: Any = numba_codegen.JITCPUCodegen
    if target._library_class is library_class:  # noqa: SLF001 - otherwise this was done before
        target._library_class = LateLibrary  # noqa: SLF001
