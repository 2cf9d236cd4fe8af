"""The connections of a capture as a whole: rows and totals count the same connections."""


def test_each_connection_counts_in_one_row(summary):
    totals = summary.connections
    assert totals.count == sum(row.connections for row in totals.protocols) > 0
    kafka = {row.protocol: row for row in totals.protocols}["kafka"]
    assert sum(row.connections for row in totals.software) <= kafka.connections
    assert totals.bytes_to_server + totals.bytes_to_client <= kafka.bytes


def test_each_kafka_connection_begins_and_ends_in_one_way(summary):
    totals = summary.connections
    kafka = sum(row.connections for row in totals.protocols if row.protocol == "kafka")
    assert totals.opened_by_handshake + totals.midstream == kafka
    assert totals.closed_by_fin + totals.closed_by_rst + totals.still_open == kafka
