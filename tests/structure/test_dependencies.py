"""Dependencies that nothing imports, and imports of what is not named."""

from tests.structure.conftest import Make
from tests.structure.dependencies import dependencies, distribution, modules_of
from tests.structure.rules import check

PYPROJECT = """
[project]
name = "kdissect"
dependencies = [
    "numpy>=2.0",
    "python-snappy>=0.7.3",
]

[project.optional-dependencies]
hdfs = ["hdfs-native>=0.14"]
test = ["kdissect[hdfs]", "scapy>=2.6", "moto[server]>=5.1"]
"""
IMPORTS = (
    "import numpy as np\nimport snappy\nfrom hdfs_native import Client\nimport json\nimport kdissect.a\n"
)
TESTS = "import scapy.all\nimport pytest\npytest.importorskip('moto.server')\nimport helper\nimport numpy\n"
GOOD = {
    "pyproject.toml": PYPROJECT.replace('"kdissect[hdfs]"', '"kdissect[hdfs]", "pytest"'),
    "kdissect/a.py": IMPORTS,
    "tests/test_a.py": TESTS,
    "tests/b/helper.py": "",
}


def test_all_is_named_and_imported(make: Make) -> None:
    assert not list(dependencies(make(GOOD)))


def test_a_dependency_that_nothing_imports(make: Make) -> None:
    files = {**GOOD, "kdissect/a.py": "import numpy\n", "tests/test_a.py": TESTS + "import snappy\n"}
    assert [str(finding) for finding in dependencies(make(files))] == [
        "pyproject.toml:10: dependency: nothing in kdissect/ imports hdfs-native",
        "pyproject.toml:6: dependency: nothing in kdissect/ imports python-snappy",
    ]


def test_a_dependency_of_tests_that_only_the_package_imports(make: Make) -> None:
    files = {
        **GOOD,
        "kdissect/a.py": IMPORTS + "import scapy\n",
        "tests/test_a.py": "import pytest\nimport moto\n",
    }
    assert [str(finding) for finding in dependencies(make(files))] == [
        "pyproject.toml:11: dependency: nothing in tests/ imports scapy",
        "kdissect/a.py:6: dependency: scapy is imported, and pyproject.toml does not name it",
    ]


def test_an_import_that_is_not_named(make: Make) -> None:
    files = {**GOOD, "tests/test_b.py": "def test():\n    import crc32c\n"}
    assert [str(finding) for finding in dependencies(make(files))] == [
        "tests/test_b.py:2: dependency: crc32c is imported, and pyproject.toml does not name it"
    ]


def test_a_listed_tool(make: Make) -> None:
    listed = '[[dependency]]\nname = "ruff"\nreason = "A command: lint."\n'
    pyproject = GOOD["pyproject.toml"] + 'dev = ["ruff>=0.14"]\n'
    files = {**GOOD, "pyproject.toml": pyproject, "tests/structure/exceptions.toml": listed}
    assert not check(make(files), ["dependency"])


def test_names_of_distributions() -> None:
    assert distribution("pyspark[connect]>=4.3") == "pyspark[connect]"
    assert distribution("uvloop>=0.21; sys_platform != 'win32'") == "uvloop"
    assert modules_of("hdfs-native>=0.14") == ("hdfs_native",)
    assert modules_of("kafka-python") == ("kafka",)
