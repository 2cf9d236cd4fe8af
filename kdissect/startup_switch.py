"""The one switch of all start-up shortcuts: the environment variable KDISSECT_STARTUP.

Modules of `spark.startup` and of `jit` each save a part of the start-up time, and ask here whether they may.
`KDISSECT_STARTUP=plain` turns all of them off, for whoever looks for a fault;
`KDISSECT_STARTUP=-prefork,-local_scan` turns off those that are named, and `+in_process` turns on one that is
off by default. Results are the same in every case. docs/startup.md says what each one saves.
"""

import os
from enum import StrEnum

from kdissect.errors import UserError

STARTUP_VARIABLE = "KDISSECT_STARTUP"
PLAIN = "plain"


class Shortcut(StrEnum):
    """Shortcut that makes kdissect start faster; the value is the name in the switch."""

    BLOCK_UNUSED = "block_unused"
    """PyArrow, PySpark and Numba do not import what nothing here uses, such as pandas."""
    CLASS_DATA_SHARING = "class_data_sharing"
    """The JVM maps an archive of classes that was made behind an earlier run."""
    DIRECT_JVM = "direct_jvm"
    """Spark's gateway is started without spark-submit, with JVM options for a short life."""
    EARLY_CONTEXT = "early_context"
    """The JVM makes the Spark context while this process still loads modules."""
    FUNCTION_CLASSES = "function_classes"
    """That archive has functions of Scala, as classes that were made beforehand."""
    IN_PROCESS = "in_process"
    """Figures of small captures are made without Spark. Off by default, since Spark is the one engine."""
    LATE_BITCODE = "late_bitcode"
    """Compiled kernels are loaded without the form of them that only the compiler needs."""
    LATE_REGISTRIES = "late_registries"
    """Compiled kernels are loaded without what the compiler knows of Python and NumPy."""
    LEAN_CONTEXT = "lean_context"
    """Spark leaves out what only its web page, its log and clusters need."""
    LOAD_ONCE = "load_once"
    """This process loads what workers need before it forks their daemon."""
    LOCAL_SCAN = "local_scan"
    """This process scans captures while Spark starts."""
    PREFORK = "prefork"
    """The daemon of the Python workers is forked and loaded before Spark asks for it."""
    QUICK_EXIT = "quick_exit"
    """The process of a command ends without freeing each object, and ends the JVM at once."""
    SHORT_CLASS_PATH = "short_class_path"
    """Java is given the jars that a local run can use, and not all of Spark's."""
    UNCOMPILED_FIRST_RUN = "uncompiled_first_run"
    """The first runs over small captures interpret the kernels, and compile them in the background."""
    WARM_UP = "warm_up"
    """The worker daemon loads the compiled kernels by dissecting a capture of a few packets."""


DEFAULT = frozenset(Shortcut) - {Shortcut.IN_PROCESS}


class StartupSwitchError(UserError):
    """KDISSECT_STARTUP names what does not exist; the message is one sentence."""


def is_on(shortcut: Shortcut) -> bool:
    """Return whether a shortcut is used. Raise StartupSwitchError if the switch is wrong."""
    return shortcut in used_shortcuts(os.environ.get(STARTUP_VARIABLE, ""))


def used_shortcuts(text: str) -> frozenset[Shortcut]:
    """Return the shortcuts that are used with a value of the switch. Raise StartupSwitchError for other text.

    >>> sorted(used_shortcuts("+in_process") - DEFAULT)
    [<Shortcut.IN_PROCESS: 'in_process'>]
    >>> sorted(DEFAULT - used_shortcuts("-prefork,-warm_up"))
    [<Shortcut.PREFORK: 'prefork'>, <Shortcut.WARM_UP: 'warm_up'>]
    """
    if text == PLAIN:
        return frozenset()
    by_word = {f"{'-' if shortcut in DEFAULT else '+'}{shortcut}": shortcut for shortcut in Shortcut}
    words = [word for word in text.split(",") if word]
    if unknown := [word for word in words if word not in by_word]:
        known = ", ".join(by_word)
        raise StartupSwitchError(f"{STARTUP_VARIABLE}: {unknown[0]!r} is neither {PLAIN} nor one of {known}")
    return DEFAULT.symmetric_difference(by_word[word] for word in words)
