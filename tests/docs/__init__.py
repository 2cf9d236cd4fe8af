"""The documents that are made from the code: which blocks they have, and what belongs into each.

A page in docs/ is written by people. Between `<!-- generated: NAME -->` and `<!-- end -->` it holds a block
that is made from the code: `python -m tests.docs` writes all blocks anew, `python -m tests.docs --check` says
which are stale and exits with 1.
"""
