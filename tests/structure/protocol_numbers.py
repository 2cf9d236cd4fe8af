"""Numbers of APIs and errors are written in `kdissect/protocol` alone; everybody else says `ApiKey.FETCH`.

A *number* is an integer literal, a tuple, list, set, frozenset or dict of them, or a name that the same
module sets to one. A *subject* is an expression whose last name is one of `SUBJECTS`, or ends with one of
`ENDINGS`: `api_key`, `row.error_code`, `table["api_key"]`, `waiting[node, API_KEY]`, `int(last_error)`.
These are violations, one for each line:

- a subject meets a number in `==`, `!=`, `in`, `not in` or a `case`, or as the index or key of a number
  (`TABLE[api_key]`, `TABLE.get(api_key)`);
- a number is given to a parameter or a key of a dict that is called like a subject: `encode(api_key=3)`,
  `{"error_code": 3}`, `schema("request", 3)` if all functions of that name in the package have `api_key`
  there;
- a constant has the name of an API or error, or some of its words, and its number: `FETCH = 1`,
  `ADD_OFFSETS = 25`;
- a set of numbers, other than that of -1 alone.

For errors 0 and -1 are no numbers: they mean success and unknown in many fields. Bytes of captures
(`kdissect/capture`) and of TLS (`kdissect/streams/tls`) have numbers of their own, so nothing is looked for
there.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial

from tests.structure.project import Finding, Project, Source

RULE = "protocol-number"
APIS = ("api", "api_key", "key")
ERRORS = ("error", "error_code", "code")
SUBJECTS = (*APIS, *ERRORS)
PARAMETERS = ("api", "api_key", "error", "error_code")
ENDINGS = ("_api_key", "_error", "_error_code")
ELSEWHERE = ("kdissect/protocol/", "kdissect/capture/", "kdissect/streams/tls/")
MESSAGES = re.compile(r"(\d+)_(\w+)\.txt")
ENUMERATIONS = ("ApiKey", "ErrorCode")

Numbers = frozenset[int]
Names = dict[int, list[frozenset[str]]]
Signatures = dict[str, list[list[str]]]


def protocol_numbers(project: Project) -> Iterator[Finding]:
    """Yield the lines outside the protocol that have the number of an API or an error."""
    names = official_names(project)
    signatures = signatures_of(project.product)
    for source in project.product:
        if source.path.as_posix().startswith(ELSEWHERE):
            continue
        found: dict[int, str] = {}
        constants = _constants(source)
        for node in source.nodes:
            for line, sentence in _violations(node, constants, signatures):
                found.setdefault(line, sentence)
        for line, sentence in _named(source, names):
            found.setdefault(line, sentence)
        for line, sentence in sorted(found.items()):
            if not project.allows(RULE, f"{source.path.as_posix()}: {source.lines[line - 1].strip()}"):
                yield source.at(line, RULE, sentence)


def official_names(project: Project) -> Names:
    """Return the words of the names of APIs and errors by number, from message files and enumerations."""
    names: Names = defaultdict(list)
    for path in (project.root / "kdissect/protocol").rglob("*.txt"):
        if match := MESSAGES.fullmatch(path.name):
            names[int(match[1])].append(frozenset(match[2].upper().split("_")))
    for source in project.product:
        if source.path.as_posix().startswith("kdissect/protocol/"):
            for name, number in _members(source):
                names[number].append(frozenset(name.split("_")))
    return names


def _members(source: Source) -> Iterator[tuple[str, int]]:
    for node in source.tree.body:
        if isinstance(node, ast.ClassDef) and node.name in ENUMERATIONS:
            for member in node.body:
                for name, value in _assigned(member):
                    yield from ((name, number) for number in numbers(value, {}) or ())


def signatures_of(sources: Iterable[Source]) -> Signatures:
    """Return the positional parameters of all functions by the function's name, without `self`."""
    found: Signatures = defaultdict(list)
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
                found[node.name].append([name for name in names if name not in ("self", "cls")])
    return found


def numbers(node: ast.expr, constants: dict[str, Numbers]) -> Numbers | None:
    """Return the integers that an expression consists of, or None if it is anything else."""
    if isinstance(node, ast.Constant):
        return frozenset({node.value}) if type(node.value) is int else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = numbers(node.operand, constants)
        return None if inner is None else frozenset(-number for number in inner)
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.Call) and node.args and _last_name(node.func) in ("frozenset", "set"):
        return numbers(node.args[0], constants)
    parts: list[ast.expr] = []
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        parts = node.elts
    elif isinstance(node, ast.Dict):
        parts = [key for key in node.keys if key is not None]
    inners = [numbers(part, constants) for part in parts]
    if not inners or None in inners:
        return None
    return frozenset[int]().union(*(inner for inner in inners if inner))


def _constants(source: Source) -> dict[str, Numbers]:
    found: dict[str, Numbers] = {}
    for statement in source.tree.body:
        for name, value in _assigned(statement):
            if (each := numbers(value, found)) is not None:
                found[name] = each
    return found


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a statement sets, each with its value; those of `A, B = 0, 1` one by one."""
    if isinstance(statement, ast.AnnAssign) and statement.value and isinstance(statement.target, ast.Name):
        yield statement.target.id, statement.value
    if not isinstance(statement, ast.Assign):
        return
    for target in statement.targets:
        if isinstance(target, ast.Name):
            yield target.id, statement.value
        elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            for part, value in zip(target.elts, statement.value.elts, strict=False):
                if isinstance(part, ast.Name):
                    yield part.id, value


def _last_name(node: ast.expr) -> str:
    """Return the name that says what an expression is: `api_key` of `row.api_key` and `table["api_key"]`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        index = node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        if isinstance(index, ast.Constant):
            return index.value if isinstance(index.value, str) else _last_name(node.value)
        return _last_name(index) if isinstance(index, ast.Name | ast.Attribute) else _last_name(node.value)
    if isinstance(node, ast.Call):
        single = len(node.args) == 1 and _last_name(node.func) in ("int", "abs")
        return _last_name(node.args[0]) if single else _last_name(node.func)
    return ""


def _is(name: str, subjects: Iterable[str]) -> bool:
    return name.lower() in subjects or any(
        name.lower().endswith(ending) and ending[1:] in subjects for ending in ENDINGS
    )


def _is_subject(node: ast.expr) -> bool:
    return _is(_last_name(node), SUBJECTS)


def _counts(name: str, found: Numbers | None) -> bool:
    """Return whether numbers say something for a subject of this name."""
    return bool(
        found and (found - {0, -1} if _is(name, ERRORS) else {number for number in found if number >= 0})
    )


def _violations(
    node: ast.AST, constants: dict[str, Numbers], signatures: Signatures
) -> Iterator[tuple[int, str]]:
    value = partial(numbers, constants=constants)
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        equal = all(isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for operator in node.ops)
        for subject in operands if equal else []:
            if _is_subject(subject) and any(_counts(_last_name(subject), value(other)) for other in operands):
                yield node.lineno, f"{ast.unparse(subject)} is compared with a number"
    elif isinstance(node, ast.Subscript) and _is_subject(node.slice) and value(node.value) is not None:
        yield node.lineno, f"{ast.unparse(node.slice)} looks something up in a table of numbers"
    elif isinstance(node, ast.Match):
        yield from _matched(node)
    elif isinstance(node, ast.Dict):
        for key, item in zip(node.keys, node.values, strict=True):
            name = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
            if _is(name, PARAMETERS) and _counts(name, value(item)):
                yield item.lineno, f"{name!r} is a number"
    elif isinstance(node, ast.Set) and (value(node) or frozenset()) - {-1}:
        yield node.lineno, "a set of numbers"
    elif isinstance(node, ast.Call):
        yield from _called(node, constants, signatures)


def _matched(node: ast.Match) -> Iterator[tuple[int, str]]:
    for case in node.cases if _is_subject(node.subject) else []:
        for pattern in ast.walk(case.pattern):
            found = numbers(pattern.value, {}) if isinstance(pattern, ast.MatchValue) else None
            if isinstance(pattern, ast.MatchValue) and _counts(_last_name(node.subject), found):
                yield pattern.lineno, f"{ast.unparse(node.subject)} is compared with a number"


def _called(
    call: ast.Call, constants: dict[str, Numbers], signatures: Signatures
) -> Iterator[tuple[int, str]]:
    given = [(keyword.arg or "", keyword.value) for keyword in call.keywords]
    name = _last_name(call.func)
    table = numbers(call.func.value, constants) if isinstance(call.func, ast.Attribute) else None
    if name == "get" and table is not None and call.args and _is_subject(call.args[0]):
        yield call.lineno, f"{ast.unparse(call.args[0])} looks something up in a table of numbers"
    for position, argument in enumerate(call.args):
        called = {names[position] if position < len(names) else "" for names in signatures.get(name, [])}
        if len(called) == 1:
            given.append((called.pop(), argument))
    for parameter, argument in given:
        if _is(parameter, PARAMETERS) and _counts(parameter, numbers(argument, constants)):
            yield argument.lineno, f"{name}() is given a number as {parameter}"


def _named(source: Source, names: Names) -> Iterator[tuple[int, str]]:
    bodies = [source.tree.body, *(node.body for node in source.nodes if isinstance(node, ast.ClassDef))]
    for statement in (statement for body in bodies for statement in body):
        for name, value in _assigned(statement):
            words = frozenset(name.split("_"))
            for number in (numbers(value, {}) or frozenset()) if isinstance(value, ast.Constant) else ():
                if any(
                    words == known or (len(words) > 1 and words < known) for known in names.get(number, [])
                ):
                    yield statement.lineno, f"{name} is the number of an API or an error"
