"""Dissect, explain and replay Apache Kafka traffic from packet captures.

    capture ─► packets ─► segments ─► streams ─► frames ─► messages ─► exchanges ─┬─► tables ─► report
     files     time_ns      TCP       ordered    length    header+body  request↔   └─► plan ─► replay
                                                                        response

`protocol` gives bytes their meaning, `capture` turns files into exchanges, `pipeline` runs both on Spark,
`report` explains the tables that come out.
"""

__version__ = "0.1.0"
