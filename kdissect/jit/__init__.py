"""Compiled loops.

The decorators that compile them, and the cache that keeps the compiled code between runs.
"""
