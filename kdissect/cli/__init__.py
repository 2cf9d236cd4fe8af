"""The command line: arguments in, output and an exit code out (`kdissect.errors.ExitCode` has the table).

`main` runs a command, `arguments`, `options` and `filter_options` define what may be given, `context`
prepares a run on Spark, and each command has a module of its own.
"""

try:
    from kdissect.cli.main import main
except KeyboardInterrupt:  # nothing has been read yet, and `main` could not catch it
    raise SystemExit(130) from None

__all__ = ["main"]
