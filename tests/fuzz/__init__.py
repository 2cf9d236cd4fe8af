"""Fuzzing of everything that reads captured bytes, for as long as one likes.

    python -m tests.fuzz --seconds 3600 [--target NAME ...] [--compiler on|off|both] [--jobs N]
    python -m tests.fuzz --engine atheris --seconds 3600      by coverage: see `guided`
    python -m tests.fuzz --replay DIR/CASE                    one kept case again
    python -m tests.fuzz --distil DIR/corpus                  choose small corpora: see `distil`

| module     | what it owns                                                                          |
| ---------- | ------------------------------------------------------------------------------------- |
| `seeds`    | frames of the recorded captures, and random messages of every API, version and half   |
| `corpus`   | the cases that a target begins with: seeds, and inputs that reached new code before    |
| `damage`   | changes of bytes                                                                      |
| `targets`  | the readers, and the laws that hold whatever the bytes are; those for files, TCP, TLS |
|            | and whole commands are in `captures`, `streams`, `tls` and `commands`                 |
| `rounds`   | processes that fuzz in turns, each with one target and the compiler on or off         |
| `worker`   | one such process, that damages and reads; `guided` is one that atheris leads           |
| `progress` | what a process has done so far, and the case that it reads: outlives a crash           |
| `totals`   | what was done in all runs: `reports/fuzz.json`, and `reports/fuzz.md` made of it      |

A case that raises, takes 20 s of processor time, ends the process or breaks a law is kept as a file in DIR;
one of each kind is enough. What was found and mended lives in `cases/` and is read again by `test_fuzz.py`.
With NUMBA_BOUNDSCHECK=1 (and an XDG_CACHE_HOME of its own, since kernels are kept by their sources alone)
every index of a kernel is checked.
"""
