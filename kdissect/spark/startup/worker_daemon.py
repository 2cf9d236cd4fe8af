"""The program that Spark starts to make Python workers.

It hands over to the child of `prefork`, or does the work itself.

Spark's own daemon imports nothing, so every worker would import NumPy, PyArrow and Numba and read the
compiled kernels again. Here all of that is loaded once, and workers are forked from it.
"""

from kdissect.spark.startup.hand_over import hand_over, has_child


def main() -> None:
    """Make workers, here or in the child of `prefork`."""
    if hand_over():
        return
    # Imported late: handing over needs none of this, and the job waits for it.
    from kdissect.spark.startup.block_unused import block_unused
    from kdissect.spark.startup.prefork import preload
    from kdissect.startup_switch import Shortcut, is_on

    if is_on(Shortcut.BLOCK_UNUSED):
        block_unused()
    # Workers of the child dissect. Those of a daemon beside it serve SQL and handle rows: compiled loops
    # would take 15 MiB of each.
    preload(kernels=not has_child())
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
