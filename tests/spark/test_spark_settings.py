"""Settings of Spark for runs on this machine and on clusters."""

import pytest

from kdissect.spark.spark_settings import OWN_SECRET_SETTINGS, SparkSettings


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4,2]", 4)])
def test_cores_of_a_local_run(master: str, cores: int) -> None:
    assert SparkSettings(master).cores == cores
    assert SparkSettings("local[*]").cores >= 1


@pytest.mark.parametrize(
    ("master", "local"), [("local", True), ("local[*]", True), ("yarn", False), ("spark://host:7077", False)]
)
def test_what_runs_on_this_machine(master: str, local: bool) -> None:
    settings = SparkSettings(master, confs={"spark.app.name": "mine"})
    assert settings.local is local
    confs = settings.spark_confs()
    assert (confs["spark.master"], confs["spark.app.name"]) == (master, "mine")
    assert ("spark.driver.bindAddress" in confs) is local


@pytest.mark.parametrize(
    ("master", "known", "is_set"),
    [
        ("yarn", {}, OWN_SECRET_SETTINGS),
        ("k8s://https://cluster:6443", {}, OWN_SECRET_SETTINGS),
        ("yarn", {"spark.authenticate": "false"}, OWN_SECRET_SETTINGS[1:]),
        ("yarn", {"spark.shuffle.service.enabled": "true"}, ()),
        ("spark://host:7077", {}, ()),
        ("local[2]", {}, ()),
    ],
)
def test_clusters_that_make_secrets_authenticate_and_encrypt(
    master: str, known: dict[str, str], is_set: tuple[str, ...]
) -> None:
    """Check that the user's settings stay, also on a cluster whose operators choose the secret."""
    assert SparkSettings(master).secret_confs(known.get) == dict.fromkeys(is_set, "true")
