"""The folder of the tests on the path: modules beside these tests are `capture.…`."""

import sys
from pathlib import Path

TESTS = str(Path(__file__).parent.parent)

if TESTS not in sys.path:
    sys.path.insert(0, TESTS)
