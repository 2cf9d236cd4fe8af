"""A replay that several machines send: one driver, and workers that whoever starts them has started.

In: a replay log that all of them can read, and the settings of a run. Out: the files of the run, with one
directory for each worker. Nothing here knows Spark: `kdissect.spark.barrier_tasks` starts `send_part` in
tasks, and any other way to start a function on a machine would do.

- `channel` carries messages between driver and worker, encrypted, for those who know the token of the run.
- `run_messages` names the messages, and what they carry.
- `clock_offset` tells how far a worker's clock is from the driver's.
- `worker_link` is the worker's end of the channel: it hears the driver while the worker sends, and gives
  the stop signal. `part_worker` is the worker: it loads the log, and plays its part with a `PassWorker`.
- `remote_workers` is the driver's end: who has joined, what each has told, and who was lost. `machines_run`
  is the run from the first worker to the files.
- `progress_feed` is what a worker reports about its requests, and the driver's ledger of it.
"""
