"""Fuzzing of everything that reads captured bytes: real and random messages, damaged, through every reader.

    python -m tests.fuzz --seconds 1200 [--seed 1] [--target NAME ...] [--out DIR]
    python -m tests.fuzz --replay DIR/CASE
    python -m tests.fuzz --guided [...]       by coverage, where atheris is installed: see `guided`

`seeds` gives frames of the recorded captures and random messages of every API, version and half; `damage`
changes them; `targets` reads them and says what must hold whatever the bytes are; `captures` does so with
whole capture files, `streams` with TCP segments, `tls` with records. Every target gets the same processor
time. A case that raises, takes 20 seconds or breaks a law is kept as a file in DIR; one of each kind is
enough. What was found and mended lives in `cases/` and is read again by `test_fuzz.py`. docs/fuzzing.md says
how much of it was done.

With KDISSECT_JIT=0 the same runs without the compiler, and with NUMBA_BOUNDSCHECK=1 (and an XDG_CACHE_HOME of
its own, since kernels are kept by their sources alone) every index of a kernel is checked.
"""
