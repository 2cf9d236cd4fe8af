"""Check that a query only reads the tables of the captures, decided on the plan of Spark's own parser.

Spark SQL is more than a language of queries: it starts programs (TRANSFORM), calls Java (reflect), reads any
file (text.`/path`), writes, and changes its own settings. People paste queries from elsewhere, so `sql` takes
one query that reads its tables and nothing else, unless the user lifts that.

The parser makes a tree. Every node of it, in fields, options, lists and maps, must be of a class that
`select_vocabulary` lists, every function must be listed there, and every relation must be a table of the
captures or be named by a WITH around it. Anything else is refused with its name. Nothing is analyzed before,
since Spark evaluates constants and runs commands while it analyzes.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from kdissect.spark.select_vocabulary import (
    EXPRESSIONS,
    FUNCTIONS,
    PLAN_NODES,
    TABLE_FUNCTIONS,
    USER_ATTRIBUTES,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBSTITUTION = "spark.sql.variable.substitute"
"""The setting by which Spark replaces ${env:NAME} in a query by a variable of the environment."""

MOST_NODES = 20_000  # of a query: each takes a fraction of a millisecond
CATALYST = "org.apache.spark.sql.catalyst."
TREE_NODE = CATALYST + "trees.TreeNode"
VALUES = (
    "org.apache.spark.sql.types.",
    "org.apache.spark.sql.util.CaseInsensitiveStringMap",
    "org.apache.spark.unsafe.types.",
    "java.util.UUID",
    "scala.Enumeration$",
)
"""Beginnings of names of classes that hold values only."""

CLOSED = frozenset(("Literal", "LocalRelation"))  # hold constants only
LIFTED_BY = "--unrestricted-sql lifts this"


class RestrictedQueryError(ValueError):
    """A query does more than read the tables of the captures; the message is one sentence."""


def tables_read(session: "SparkSession", query: str, tables: Collection[str]) -> set[str]:
    """Return which of the tables a query reads.

    Raise RestrictedQueryError if it does anything else, and Spark's ParseException if it is not SQL.
    """
    session.conf.set(SUBSTITUTION, "false")
    java: Any = session
    parser = java._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - nothing public only parses
    return tables_of_plan(java._jvm, parser.parsePlan(query), tables)  # noqa: SLF001


def tables_of_plan(jvm: Any, plan: Any, tables: Collection[str]) -> set[str]:
    """Return which of the tables a parsed plan reads. Raise RestrictedQueryError if it does anything else."""
    check = _Check(jvm, tables)
    check.visit(plan, frozenset())
    return check.read


class _Check:
    """A walk over a parsed plan. `read` collects the tables of the captures that it names."""

    def __init__(self, jvm: Any, tables: Collection[str]) -> None:
        self.read: set[str] = set()
        self._tables = tables
        of_name = jvm.java.lang.Class.forName
        self._kinds = [(of_name(TREE_NODE), "node"), (of_name("scala.collection.Iterable"), "iterable")]
        self._kinds += [(of_name("scala.Product"), "product")]
        self._kind_of: dict[str, str] = {}
        self._left = MOST_NODES

    def visit(self, value: Any, known: frozenset[str]) -> None:
        """Check a value of a plan and everything in it; `known` are the names that WITH clauses give."""
        if value is None or isinstance(value, str | int | float | bytes):
            return
        self._left -= 1
        if self._left < 0:
            raise RestrictedQueryError(f"the query is too long to be checked; {LIFTED_BY}")
        name = str(value.getClass().getName())
        kind = self._kind(name, value)
        if kind == "node":
            self._visit_node(value, name, known)
        elif kind in ("iterable", "product"):
            for item in _items(value.iterator() if kind == "iterable" else value.productIterator()):
                self.visit(item, known)
        elif not name.startswith(VALUES):
            raise RestrictedQueryError(
                f"the query uses {name}, which is not known to be harmless; {LIFTED_BY}"
            )

    def _kind(self, name: str, value: Any) -> str:
        if name not in self._kind_of:
            self._kind_of[name] = next((kind for of, kind in self._kinds if of.isInstance(value)), "")
        return self._kind_of[name]

    def _visit_node(self, node: Any, name: str, known: frozenset[str]) -> None:
        simple = name.rpartition(".")[2].rstrip("$")
        if not name.startswith(CATALYST) or simple not in PLAN_NODES | EXPRESSIONS:
            raise RestrictedQueryError(
                f"the query is not a SELECT over the tables of the captures (it has {simple}); {LIFTED_BY}"
            )
        if simple in CLOSED:
            return
        if simple == "UnresolvedWith":
            self._visit_with(node, known)
            return
        if rule := _RULES.get(simple):
            rule(self, node, known)
        for item in _items(node.productIterator()):
            self.visit(item, known)

    def _visit_with(self, node: Any, known: frozenset[str]) -> None:
        """Check a WITH, whose names are known to what follows, and to themselves if they are recursive."""
        for relation in _items(node.cteRelations().iterator()):
            name = {str(relation.productElement(0)).lower()}
            self.visit(relation.productElement(1), known | name if node.allowRecursion() else known)
            known |= name
        self.visit(node.child(), known)

    def relation(self, node: Any, known: frozenset[str]) -> None:
        """Check the name of a relation."""
        parts = [str(part) for part in _items(node.multipartIdentifier().iterator())]
        name = parts[0].lower()
        if len(parts) > 1:
            raise RestrictedQueryError(
                f"`{'.'.join(parts)}` is not a table of the captures, which are {self._all}; {LIFTED_BY}"
            )
        if name in known:
            return
        if name not in self._tables:
            raise RestrictedQueryError(f"the table `{parts[0]}` cannot be found; the tables are {self._all}")
        self.read.add(name)

    @property
    def _all(self) -> str:
        return ", ".join(self._tables)

    def function(self, node: Any, _known: frozenset[str]) -> None:
        """Check the name of a function."""
        _check_function([str(part) for part in _items(node.nameParts().iterator())], FUNCTIONS)

    def table_function(self, node: Any, _known: frozenset[str]) -> None:
        """Check the name of a function in the place of a table."""
        _check_function([str(part) for part in _items(node.name().iterator())], TABLE_FUNCTIONS)

    def generator(self, node: Any, _known: frozenset[str]) -> None:
        """Check the name of the function of a LATERAL VIEW."""
        _check_function(str(node.name().unquotedString()).split("."), TABLE_FUNCTIONS)

    def attribute(self, node: Any, _known: frozenset[str]) -> None:
        """Check the name of a column."""
        parts = [str(part) for part in _items(node.nameParts().iterator())]
        if len(parts) == 1 and parts[0].lower() in USER_ATTRIBUTES:
            raise RestrictedQueryError(f"the query asks for {parts[0]}; {LIFTED_BY}")


_RULES = {
    "UnresolvedRelation": _Check.relation,
    "UnresolvedFunction": _Check.function,
    "UnresolvedTableValuedFunction": _Check.table_function,
    "UnresolvedGenerator": _Check.generator,
    "UnresolvedAttribute": _Check.attribute,
}


def _check_function(parts: list[str], allowed: frozenset[str]) -> None:
    name = ".".join(parts)
    if name.lower() not in allowed:
        raise RestrictedQueryError(
            f"the function `{name}` does not exist, or may do more than compute; {LIFTED_BY}"
        )


def _items(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()
