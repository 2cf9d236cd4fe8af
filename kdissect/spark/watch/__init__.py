"""Captures that never end, on Spark Structured Streaming: see docs/watch.md.

`closed_files` and `file_journal` decide which files there are, and in which order. `file_stream` offers them
to Spark, `batch_step` dissects a batch of them in tasks, and `hour_writer` writes its rows. `batch_store`
keeps state and rows of each batch exactly once, `batch_job` is all the work of a batch, and `watch_query`
runs one batch after another.
"""
