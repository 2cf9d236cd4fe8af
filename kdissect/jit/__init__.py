"""Compiled loops: the decorators that compile them, and the cache that keeps the code between runs."""
