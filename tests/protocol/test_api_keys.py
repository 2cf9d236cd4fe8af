"""The names and classes of API keys agree with the schema."""

import re
from collections import Counter
from importlib import resources

import pytest

from kdissect.protocol import api_keys
from kdissect.protocol.api_keys import CLASSES, ApiKey
from kdissect.protocol.schema.registry import APIS


def test_keys_are_those_of_the_schema_files() -> None:
    files = resources.files("kdissect.protocol.schema").joinpath("messages")
    names = [match for entry in files.iterdir() if (match := re.fullmatch(r"(\d+)_(\w+)\.txt", entry.name))]
    assert {name[2].upper(): int(name[1]) for name in names} == {key.name: key.value for key in ApiKey}


def test_names_are_those_of_the_apis() -> None:
    named = {key: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api.name).upper() for key, api in APIS.items()}
    assert named == {key.value: key.name for key in ApiKey}


def test_every_api_is_in_one_class() -> None:
    assert Counter(key for keys in CLASSES.values() for key in keys) == dict.fromkeys(ApiKey, 1)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_classes_are_called_by_their_names(name: str) -> None:
    assert CLASSES[name] is getattr(api_keys, name.upper())
