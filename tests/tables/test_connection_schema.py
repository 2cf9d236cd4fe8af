"""The columns of connections: the same about both ends."""

from kdissect.tables.connection_schema import CONNECTION_COLUMNS


def test_both_ends_have_the_same_columns_about_acknowledgments() -> None:
    names = [column.name for column in CONNECTION_COLUMNS]
    of_server = [name for name in names if name.startswith("server_ack")]
    assert len(of_server) == 4
    assert [name.replace("server", "client") for name in of_server] == [
        name for name in names if name.startswith("client_ack")
    ]
    assert len(set(names)) == len(names)
