"""Spark: its start, its jobs, its failures. The only package that knows of it."""
