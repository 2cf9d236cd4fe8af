"""Work of a watch beside its batches: lines, hooks, a capture of its own, metrics and the screen.

Each module takes the `BatchReport` of a batch that counts. Nothing here holds up the next batch: what may
take long runs in a thread of its own, within a bound.
"""
