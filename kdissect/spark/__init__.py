"""The runner on Spark: its start, its jobs, its failures. The only package that imports pyspark."""
