"""The names of the decorators of kernels."""

INNER = {"jit_inner", "jit_inline", "jit_thin"}
"""Those of kernels that only other kernels call."""

KINDS = {"jit", "jit_flat", "jit_seldom"} | INNER
