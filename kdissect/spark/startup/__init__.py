"""Shortcuts that make Spark start faster: each module saves one part of the start-up time."""
