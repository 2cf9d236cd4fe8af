"""How sessions of a Spark Connect server are told from others."""

from kdissect.spark.backend import is_connect


class Session: ...


class ConnectSession:
    __module__ = "pyspark.sql.connect.session"


def test_sessions_of_a_connect_server_are_told_by_their_module() -> None:
    assert is_connect(ConnectSession())
    assert not is_connect(Session())
    assert not is_connect(None)
