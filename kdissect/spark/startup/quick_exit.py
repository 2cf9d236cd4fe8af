"""The end of a command's process, without freeing each of its objects first.

Python frees modules and objects one by one when it ends. Spark, Numba and Arrow have made some hundred
thousand, and the system takes all memory of a process at once anyway.
"""

import atexit
import os
import sys
import threading

from kdissect.startup_switch import Shortcut, is_on


def quick_exit(code: int) -> None:
    """End this process as Python would, in every way that others notice: threads, handlers, streams.

    Return if the shortcut is off, if somebody measures this process, or if its output cannot be written,
    which is for Python to report. Raise StartupSwitchError if the switch is wrong.
    """
    if not is_on(Shortcut.QUICK_EXIT) or sys.gettrace() or sys.getprofile():
        return
    # Neither has a public name. The first awaits threads and pools.
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)
