"""What Spark starts to make Python workers: hands over to the standby of this run, or does the work itself.

Spark's own daemon imports nothing, so that every worker would import NumPy, PyArrow and Numba and read the compiled loops
again; here all of that is loaded once, then one worker after another is forked.
"""

from kdissect.spark.startup.block_pandas import block_pandas
from kdissect.spark.startup.prefork import hand_over, preload


def main() -> None:
    """Serve, here or by the standby."""
    if hand_over():
        return
    block_pandas()
    preload()
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
