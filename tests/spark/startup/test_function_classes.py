"""Rewritten classes do what the originals do, in a JVM, and damaged ones are refused."""

import random
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway, is_instance_of
from py4j.protocol import Py4JJavaError, get_return_value

from kdissect.spark.startup.class_file import ClassFile, ClassFileError, Member, Tag
from kdissect.spark.startup.class_writer import Access, Opcode, load, return_value
from kdissect.spark.startup.function_classes import (
    CLOSURE_MARK,
    FUNCTION,
    STRINGS,
    LambdaFlag,
    rewrite_class,
)
from kdissect.spark.startup.function_writer import HandleKind
from tests.helpers.call_sites import LINKERS, CallingClass, class_name, running_jvm, write_jar
from tests.helpers.tiers import ALL

PACKAGES = ("plain", "changed")
CONCATENATE = "makeConcatWithConstants"
INTERFACE_FLAGS = 0x601  # public, interface, abstract (table 4.1-B)

OBJECT, STRING = "Ljava/lang/Object;", "Ljava/lang/String;"
FUNCTION_1, SUPPLIER, RUNNABLE = (
    "Ljava/util/function/Function;",
    "Ljava/util/function/Supplier;",
    "Ljava/lang/Runnable;",
)
ANY_TO_ANY, TO_ANY = f"({OBJECT}){OBJECT}", f"(){OBJECT}"
EVERY_TYPE = f"ZBCSIJFD{OBJECT}{STRING}"
EVERY_VALUE = [True, -1, "ß", -300, 70_000, 1 << 40, 0.1, 1e300, None, None]
DUCK = "é\ud83e\udd86".encode("utf-8", "surrogatepass").decode("latin-1")  # modified UTF-8, one byte each

CONCATENATIONS = {
    "all": (EVERY_TYPE, "a\1b\1\1\1,\1\1\1 \1\1\1", ()),
    "text": (STRING, f"{DUCK}\1\2", ("\1\2",)),
    "array": ("[I", "numbers: \1", ()),
    "nothing": ("", "only this", ()),
}


def calling_class(name: str) -> CallingClass:
    """Return a class with call sites of every kind. Methods whose names begin with `left` keep theirs."""
    made = CallingClass(name, ["java/io/Serializable"])
    add_constructor(made)
    for method, (types, recipe, constants) in CONCATENATIONS.items():
        made.concatenation(method, types, recipe, constants)
    add_static_functions(made)
    add_other_functions(made)
    add_left_functions(made)
    return made


def add_constructor(made: CallingClass) -> None:
    of_object = Member(Tag.METHOD, "java/lang/Object", "<init>", "()V")
    code = load(OBJECT, 0) + made.use(Opcode.INVOKESPECIAL, of_object) + return_value("V")
    made.method(Access.PUBLIC, "<init>", ((), "V"), code, 1)


def add_static_functions(made: CallingClass) -> None:
    """Add lambdas whose code is a static method."""
    static = HandleKind.STATIC
    made.concatenation("join", EVERY_TYPE + STRING, "\1|\1|\1|\1|\1|\1|\1|\1|\1|\1|\1")
    joined = made.own(Tag.METHOD, "join", f"({EVERY_TYPE}{STRING}){STRING}")
    types = (ANY_TO_ANY, f"({STRING}){STRING}")
    made.function("keeping", f"({EVERY_TYPE}){FUNCTION_1}", "apply", types, (static, joined))
    bridges = (f"({STRING}){STRING}", f"({OBJECT}){STRING}")
    made.function(
        *("bridged", f"({EVERY_TYPE}){FUNCTION_1}", "apply", types, (static, joined)), bridges=bridges
    )
    fixed = made.static("fixed", f"(){STRING}", made.use_string("fixed"))
    markers = ("java/util/RandomAccess", "java/util/EventListener")
    made.function("one", f"(){SUPPLIER}", "get", (TO_ANY, f"(){STRING}"), (static, fixed), markers=markers)
    long = made.static("long", "(J)J", b"")
    operator = "Ljava/util/function/LongUnaryOperator;"
    made.function("same", f"(){operator}", "applyAsLong", ("(J)J", "(J)J"), (static, long))
    made.function("dropping", f"(J){RUNNABLE}", "run", ("()V", "()V"), (static, long))
    elsewhere = Member(Tag.METHOD, "java/lang/String", "valueOf", f"({OBJECT}){STRING}")
    made.function("elsewhere", f"(){FUNCTION_1}", "apply", (ANY_TO_ANY, ANY_TO_ANY), (static, elsewhere))


def add_other_functions(made: CallingClass) -> None:
    """Add lambdas whose code is a method of an object, and a constructor."""
    own = f"L{made.name};"
    describe = made.own(Tag.METHOD, "describe", f"(){STRING}")
    made.method(
        Access.PUBLIC, "describe", ((), STRING), made.use_string("an object") + return_value(STRING), 1
    )
    constructor = made.own(Tag.METHOD, "<init>", "()V")
    called = (TO_ANY, f"(){STRING}")
    made.function("bound", f"({own}){SUPPLIER}", "get", called, (HandleKind.VIRTUAL, describe))
    unbound = (ANY_TO_ANY, f"({own}){STRING}")
    made.function("unbound", f"(){FUNCTION_1}", "apply", unbound, (HandleKind.VIRTUAL, describe))
    made.function(
        "making", f"(){SUPPLIER}", "get", (TO_ANY, f"(){own}"), (HandleKind.CONSTRUCTOR, constructor)
    )


def add_left_functions(made: CallingClass) -> None:
    """Add call sites that stay."""
    static, called = HandleKind.STATIC, (TO_ANY, f"(){STRING}")
    private = made.static("hidden", f"(){STRING}", made.use_string("x"), Access.PRIVATE | Access.STATIC)
    made.function("leftPrivate", f"(){SUPPLIER}", "get", called, (static, private))
    fixed = made.own(Tag.METHOD, "fixed", f"(){STRING}")
    made.function("leftPlain", f"(){SUPPLIER}", "get", called, (static, fixed), LambdaFlag(0))
    number = made.static("number", "()I", b"\x08")  # iconst_5
    boxing = (TO_ANY, "()Ljava/lang/Integer;")
    made.function("leftBoxing", f"(){SUPPLIER}", "get", boxing, (static, number))
    length = Member(Tag.METHOD, "java/lang/String", "length", "()I")
    made.function(
        *("leftForeign", f"({STRING})Ljava/util/function/IntSupplier;", "getAsInt", ("()I", "()I")),
        (HandleKind.VIRTUAL, length),
    )


def interface_with_function(name: str) -> bytes:
    """Return an interface with a lambda whose code is a method of that interface."""
    made = CallingClass(name)
    told = made.use_string("told")
    made.method(Access.PUBLIC, "tell", ((), STRING), told + return_value(STRING), 1)
    tell = made.own(Tag.INTERFACE_METHOD, "tell", f"(){STRING}")
    types = (ANY_TO_ANY, f"(L{name};){STRING}")
    made.function("telling", f"(){FUNCTION_1}", "apply", types, (HandleKind.INTERFACE, tell))
    content = bytearray(made.content())
    struct.pack_into(">H", content, ClassFile(bytes(content)).pool.end, INTERFACE_FLAGS)
    return bytes(content)


def implementation(name: str, interface: str) -> bytes:
    made = CallingClass(name, [interface])
    add_constructor(made)
    return made.content()


def rewritten_and_generated(content: bytes) -> dict[str, bytes]:
    rewritten = rewrite_class(content)
    assert rewritten
    return {rewritten.name: rewritten.content, **rewritten.generated}


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaGateway]:
    """Start a JVM with classes as they were made, in the package `plain`, and rewritten, in `changed`."""
    classes = {
        "plain/Calls": calling_class("plain/Calls").content(),
        "plain/Teller": interface_with_function("plain/Teller"),
        **rewritten_and_generated(calling_class("changed/Calls").content()),
        **rewritten_and_generated(interface_with_function("changed/Teller")),
        **{
            f"{package}/Person": implementation(f"{package}/Person", f"{package}/Teller")
            for package in PACKAGES
        },
    }
    jar = write_jar(tmp_path_factory.mktemp("classes") / "calls.jar", classes)
    with running_jvm([jar]) as gateway:
        yield gateway


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest, jvm: JavaGateway) -> Any:
    return getattr(jvm.jvm, request.param)


def check_class(package: Any, function: Any) -> None:
    """Assert that an object is of a generated class exactly if it was made by a rewritten one."""
    changed = package._fqn == "changed"
    assert (FUNCTION in class_name(function), "$$Lambda" in class_name(function)) == (changed, not changed)


@pytest.mark.java
def test_concatenations(package: Any, jvm: JavaGateway) -> None:
    calls = package.Calls
    assert calls.all(*EVERY_VALUE) == "atrueb-1ß-300,7000010995116277760.1 1.0E300nullnull"
    other_values = [False, 0, "\0", 0, -1, -1, float("nan"), -0.0, "", "x"]
    assert calls.all(*other_values) == "afalseb0\0000,-1-1NaN -0.0x"
    assert calls.text("!") == "é🦆!\1\2"
    assert calls.nothing() == "only this"
    assert calls.array(jvm.new_array(jvm.jvm.int, 2)).startswith("numbers: [I@")


@pytest.mark.java
def test_functions_keep_values_of_every_type(package: Any) -> None:
    for function in (package.Calls.keeping(*EVERY_VALUE), package.Calls.bridged(*EVERY_VALUE)):
        check_class(package, function)
        assert function.apply("end") == "true|-1|ß|-300|70000|1099511627776|0.1|1.0E300|null|null|end"
        assert function.apply(None).endswith("|null")


@pytest.mark.java
def test_a_function_that_keeps_nothing_is_one_object(package: Any, jvm: JavaGateway) -> None:
    one = package.Calls.one()
    check_class(package, one)
    assert one.equals(package.Calls.one())
    assert not package.Calls.keeping(*EVERY_VALUE).equals(package.Calls.keeping(*EVERY_VALUE))
    assert one.get() == "fixed"
    for interface in ("java.util.RandomAccess", "java.util.EventListener", "java.io.Serializable"):
        assert is_instance_of(jvm, one, interface)


@pytest.mark.java
def test_bridges_are_methods_of_their_own(package: Any) -> None:
    methods = package.Calls.bridged(*EVERY_VALUE).getClass().getMethods()
    found = {str(method.getReturnType().getName()) for method in methods if method.getName() == "apply"}
    assert found == {"java.lang.Object", "java.lang.String"}
    assert sum(method.getName() == "apply" for method in methods) == 3


@pytest.mark.java
def test_methods_constructors_and_conversions(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # PySpark converts errors once a test before has started it in this process, for which it needs a session.
    monkeypatch.setattr("py4j.java_gateway.get_return_value", get_return_value)
    calls = package.Calls
    made = calls.making().get()
    assert class_name(made) == f"{package._fqn}.Calls"
    assert calls.bound(made).get() == calls.unbound().apply(made) == "an object"
    assert package.Teller.telling().apply(package.Person()) == "told"
    assert calls.same().applyAsLong(1 << 40) == 1 << 40
    assert calls.dropping(1 << 40).run() is None
    assert calls.elsewhere().apply(None) == "null"
    functions = (calls.bound(made), calls.making(), calls.dropping(1), calls.elsewhere())
    for function in (*functions, package.Teller.telling()):
        check_class(package, function)
    with pytest.raises(Py4JJavaError) as raised:
        calls.unbound().apply("text")
    assert class_name(raised.value.java_exception) == "java.lang.ClassCastException"


@pytest.mark.java
def test_what_is_not_understood_stays(package: Any) -> None:
    calls = package.Calls
    made = [calls.leftPrivate(), calls.leftPlain(), calls.leftBoxing()]
    assert [function.get() for function in made] == ["x", "fixed", 5]
    assert calls.leftForeign("four").getAsInt() == 4
    assert all("$$Lambda" in class_name(function) for function in (*made, calls.leftForeign("")))


@pytest.mark.java
def test_functions_are_serialized_with_what_they_keep(jvm: JavaGateway) -> None:
    calls, clone = jvm.jvm.changed.Calls, jvm.jvm.org.apache.commons.lang3.SerializationUtils.clone
    function = calls.keeping(*EVERY_VALUE)
    copy = clone(function)
    assert class_name(copy) == class_name(function)
    assert copy.apply("end") == function.apply("end")
    assert clone(calls.one()).get() == "fixed"
    described = jvm.jvm.java.io.ObjectStreamClass.lookup(copy.getClass())
    assert described.getSerialVersionUID() == 0


def test_only_one_class_for_all_concatenations() -> None:
    rewritten = rewrite_class(calling_class("a/Calls").content())
    assert rewritten
    assert [name for name in rewritten.generated if FUNCTION not in name] == [f"a/Calls{STRINGS}"]
    assert not any(CLOSURE_MARK in name for name in rewritten.generated)


def test_rewritten_and_generated_classes_have_nothing_left() -> None:
    classes = rewritten_and_generated(calling_class("a/Calls").content())
    assert [name for name, content in classes.items() if rewrite_class(content)] == []


@pytest.mark.parametrize("name", [f"a/Calls{CLOSURE_MARK}1", "a/CallsÃ©"])
def test_classes_of_some_names_stay(name: str) -> None:
    assert rewrite_class(calling_class(name).content()) is None


def test_a_class_without_call_sites_stays() -> None:
    assert rewrite_class(implementation("a/Person", "a/Teller")) is None
    made = CallingClass("a/Named")
    made.use_string("altMetafactory")
    assert rewrite_class(made.content()) is None


def test_constants_other_than_text_stay() -> None:
    made = CallingClass("a/Numbered")
    constants = [made.pool.string("\2"), made.integer(1)]
    made.static("number", f"(){STRING}", made.call_site(CONCATENATE, "number", f"(){STRING}", constants))
    assert rewrite_class(made.content()) is None


@pytest.mark.parametrize("counted", [[], [-1], [2, 1], [100_000]])
def test_lambdas_with_a_wrong_count_are_refused(counted: list[int]) -> None:
    made = CallingClass("a/Miscounted")
    code = made.handle(HandleKind.STATIC, made.static("code", "()V", b""))
    type_ = made.method_type("()V")
    numbers = [made.integer(number) for number in (LambdaFlag.SERIALIZABLE | LambdaFlag.MARKERS, *counted)]
    site = made.call_site("altMetafactory", "run", f"(){RUNNABLE}", [type_, code, type_, *numbers])
    made.static("miscounted", f"(){RUNNABLE}", site)
    with pytest.raises(ClassFileError):
        rewrite_class(made.content())


def test_a_class_with_too_many_constants_is_refused() -> None:
    made = calling_class("a/Calls")
    for number in range(2**16 - made.pool.count - 10):
        made.pool.text(f"constant {number}")
    with pytest.raises(ClassFileError, match="too many constants"):
        rewrite_class(made.content())


def tried(content: bytes) -> bool:
    """Return whether bytes are taken for a class. Only ClassFileError may be raised."""
    try:
        rewrite_class(content)
    except ClassFileError:
        return False
    return True


def test_a_cut_class_is_refused() -> None:
    content = calling_class("a/Calls").content()
    for length in range(len(content)):
        cut = content[:length]
        looked_at = any(linker.encode() in cut for linker in LINKERS)
        assert tried(cut) != looked_at


def test_damaged_classes_are_refused_or_read() -> None:
    content = calling_class("a/Calls").content()
    chance = random.Random(1)
    counts = Counter(tried(damaged(content, chance)) for _ in range(3000 if ALL else 300))
    assert counts[True] > 30 < counts[False]


def damaged(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8])):
        changed[chance.randrange(len(changed))] = chance.choice([0, 1, 255, 186, chance.randrange(256)])
    return bytes(changed)
