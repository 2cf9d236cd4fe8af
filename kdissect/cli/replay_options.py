"""The options of `kdissect replay`, as tables, and how their values are read.

Importing this loads nothing that takes time. `GROUPS` has what `plan`, `prepare` and `run` share; the filters
and the options of reports come beside them. A value that cannot be read is refused by argparse with one
sentence. `kdissect.cli.replay` makes settings of what was read.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kdissect.cli.filter_options import ApiArgument, add_filters, api_argument, duration_argument
from kdissect.cli.options import (
    WHAT_PATHS_ARE,
    add_keylog,
    add_quiet,
    add_reading,
    master_argument,
    port_argument,
    size_argument,
)
from kdissect.cli.secret_sources import KEY_PASSWORD_VARIABLE, PASSWORD_VARIABLE
from kdissect.errors import UsageError
from kdissect.text import parse_address

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
DEFAULT_DEADLINE_NS = 30 * 10**9
LEAST_SPEED, MOST_SPEED = 0.001, 1_000_000
TRY_NS = 600 * 10**9  # the longest duration of a pass of `try`, if --max-duration says nothing else
COMMANDS = {
    "plan": "report what would be sent, rewritten and skipped, and why; changes nothing on the target",
    "prepare": "create the topics that the target lacks; without --execute, list them",
    "run": "send the traffic; without --execute, the same as plan",
    "try": "plan, prepare, run and compare in one command, under names of its own and within limits",
}


def addresses(text: str) -> list[tuple[str, int]]:
    """Read brokers: host:port, separated by commas; IPv6 addresses stand in brackets."""
    return [_address(part.strip()) for part in text.split(",")]


def _address(text: str) -> tuple[str, int]:
    try:
        host, number = parse_address(text)
    except ValueError:
        host, number = "", None
    if not host or number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address; examples: kafka.test:9092, [::1]:9092")
    return host, number


def mapping(text: str) -> tuple[str, str]:
    """Read OLD=NEW."""
    old, equals, new = text.partition("=")
    if not equals or not old or not new:
        raise argparse.ArgumentTypeError(f"{text!r} is not a mapping; example: orders=orders-test")
    return old, new


def topic_id(text: str) -> tuple[bytes, str]:
    """Read a topic id, as Kafka prints it, and the name of the topic."""
    from kdissect.text import parse_uuid

    identity = text.partition("=")[0]
    try:
        return parse_uuid(identity), mapping(text)[1]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{identity!r} is not a topic id; example: kV3-SCzWQrWjOQGfzQwfXg=orders"
        ) from None


def allowed_api(text: str) -> ApiArgument:
    """Read an API that changes a cluster, and that may be allowed."""
    from kdissect.protocol.api_keys import ADMIN
    from kdissect.protocol.schema.registry import api_name
    from kdissect.replay.load.policy import NEVER

    found = api_argument(text)
    if found.key not in ADMIN:
        what = "is never sent" if found.key in NEVER else "needs no --allow"
        names = ", ".join(map(api_name, sorted(ADMIN)))
        raise argparse.ArgumentTypeError(f"{api_name(found.key)} {what}; --allow is for {names}")
    return found


def positive(text: str) -> float:
    """Read a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def speed(text: str) -> float:
    """Read a speed."""
    value = positive(text)
    if not LEAST_SPEED <= value <= MOST_SPEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not a speed from {LEAST_SPEED} to {MOST_SPEED:,}")
    return value


def positive_duration(text: str) -> int:
    """Read a duration above 0, in nanoseconds."""
    duration_ns = duration_argument(text)
    if not duration_ns:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration above 0")
    return duration_ns


def share(text: str) -> float:
    """Read a part of 1 that is above 0."""
    value = positive(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of 1; example: 0.1")
    return value


def number(text: str) -> int:
    """Read a whole number above 0."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


class Option(NamedTuple):
    """One option: its flag, how its value is read (a parser, choices, or None for a switch), and its help.

    The default of a repeated option is an empty list.
    """

    flag: str
    type: Callable[[str], Any] | tuple[str, ...] | None
    metavar: str | None
    help: str
    default: Any = None
    repeated: bool = False
    required: bool = False

    def add(self, parser: argparse._ActionsContainer) -> None:
        """Add the option to a parser or a group."""
        more: dict[str, Any] = {"help": self.help}
        if self.type is None:
            parser.add_argument(self.flag, action="store_true", **more)
            return
        more |= {"choices": self.type} if isinstance(self.type, tuple) else {"type": self.type}
        if self.repeated:
            more |= {"action": "append", "default": []}
        else:
            more |= {"default": self.default, "required": self.required}
        parser.add_argument(self.flag, metavar=self.metavar, **more)


TARGET = (
    Option("--target", addresses, "HOST:PORT[,HOST:PORT]", "brokers of the target"),
    Option("--dry-target", None, None, "send to a target in memory, which shows how fast the replayer is"),
    Option(
        "--allow-host",
        str,
        "HOST|NETWORK",
        "further host or network that the metadata of the target may name",
        repeated=True,
    ),
    Option(
        "--i-know-target",
        str,
        "ID",
        "cluster id of the target; required if the capture does not show its own cluster id",
    ),
    Option("--sasl", MECHANISMS, None, "SASL mechanism for the target"),
    Option(
        "--user",
        str,
        "NAME",
        f"user for the target; the password comes from ${PASSWORD_VARIABLE} or --password-file",
    ),
    Option("--password-file", str, "FILE", "file whose first line is the password; - asks for it"),
    Option("--plaintext-credentials", None, None, "log in without TLS, also at other hosts than this one"),
    Option("--tls", None, None, "connect with TLS, as do all options of TLS"),
    Option("--tls-ca", str, "FILE", "file of trusted certificates (default: the system's)"),
    Option("--tls-cert", str, "FILE", "file with the client certificate and its key"),
    Option(
        "--tls-key-password-file",
        str,
        "FILE",
        f"file whose first line is the password of that key, - asks for it (or ${KEY_PASSWORD_VARIABLE})",
    ),
    Option("--insecure", None, None, "connect with TLS, but do not check the target's certificate"),
)
NAMES = (
    Option(
        "--prefix",
        str,
        "TEXT",
        "prefix for topics, groups, transactional ids and instance ids (default: replay-)",
        "replay-",
    ),
    Option("--isolated-target", None, None, "keep all names; for a target that nobody else uses"),
    Option("--topic-map", mapping, "OLD=NEW", "name of a topic on the target", repeated=True),
    Option("--group-map", mapping, "OLD=NEW", "name of a group on the target", repeated=True),
    Option(
        "--transactional-id-map",
        mapping,
        "OLD=NEW",
        "name of a transactional id on the target",
        repeated=True,
    ),
    Option(
        "--topic-id",
        topic_id,
        "ID=NAME",
        "name of a topic whose name is not in the capture; plan lists such ids",
        repeated=True,
    ),
    Option("--client-id-prefix", str, "TEXT", "prefix for client ids (default: none)", ""),
)
REWRITING = (
    Option(
        "--groups",
        ("off", "simple", "full", "auto"),
        None,
        "what of consumer groups is replayed: what the capture needs, nothing, commits, or members too "
        "(default: auto)",
        "auto",
    ),
    Option("--offsets", ("auto", "identity"), None, "how positions are translated", "auto"),
    Option(
        "--timestamps",
        ("keep", "shift", "now"),
        None,
        "timestamps of records: as captured, shifted to the time of the run, or the time of sending",
        "keep",
    ),
    Option("--allow", allowed_api, "API", "also send this API, which changes the cluster", repeated=True),
    Option("--allow-lossy", None, None, "convert requests to another version even if a field is lost"),
)
PACE = (
    Option(
        "--pace",
        ("schedule", "think", "asap"),
        None,
        "when to send: at captured times, after captured thinking time, or as soon as possible",
        "schedule",
    ),
    Option("--speed", speed, "N", "speed, as a multiple of the captured one", 1.0),
    Option("--ramp", duration_argument, "TIME", "time until the speed is reached"),
    Option("--max-gap", duration_argument, "TIME", "shorten longer pauses of the whole capture to this"),
    Option("--loop", number, "N", "number of passes", 1),
    Option(
        "--processes",
        number,
        "N",
        "number of sending processes (default: one for each core, if connections share nothing and there is "
        "enough work)",
        0,
    ),
)
SAFETY_LIMITS = (
    Option("--max-rps", positive, "N", "requests per second"),
    Option("--max-mbps", positive, "N", "megabytes per second"),
    Option("--max-bytes", size_argument, "N", "total bytes of a pass, such as 2g"),
    Option("--max-connections", number, "N", "captured connections that are replayed at a time"),
    Option("--max-duration", positive_duration, "TIME", "duration of a pass"),
    Option(
        "--max-errors",
        share,
        "SHARE",
        "stop if more than this share of the responses of 10 s are new errors (default: 0.5)",
        0.5,
    ),
    Option(
        "--answer-deadline",
        positive_duration,
        "TIME",
        "how long to wait for a response (default: 30s)",
        DEFAULT_DEADLINE_NS,
    ),
)
GROUPS: Mapping[str, Sequence[Option]] = {
    "target": TARGET,
    "names": NAMES,
    "rewriting": REWRITING,
    "pace": PACE,
    "safety limits": SAFETY_LIMITS,
}
PORT = Option("--port", port_argument, "N", "read only this TCP port", repeated=True)
EXECUTE = Option("--execute", None, None, "send and change; without it nothing changes on the target")
FORMAT = Option("--format", ("text", "json"), None, "output format", "text")
RUN = (
    Option("--out", str, "DIR", "directory for the files of the run (default: replay-<time>)"),
    Option("--name", str, "TEXT", "name of the run (default: its time)"),
)
MACHINES = (
    Option(
        "--master",
        master_argument,
        "URL",
        "Spark cluster whose executors send, such as spark://host:7077 or local[2]; takes a replay log",
    ),
    Option(
        "--lost-worker",
        ("stop", "continue"),
        None,
        "what the other workers do if one is lost (default: stop)",
    ),
)
NOISE = Option("--noise", str, "RUN", "second, identical run; differences that both runs have count as noise")
BASELINE = Option(
    "--baseline", str, "RUN", "earlier run; latencies are judged against it instead of the capture"
)
REPORT = (
    Option("--format", ("text", "json", "html"), None, "output format", "text"),
    Option("--html", str, "FILE", "also write the report as one HTML page"),
    Option(
        "--fail-on",
        str,
        "CONDITION",
        "exit with 3 if this condition is met: a verdict (diverged, invalid, slower) or a limit such as "
        "'new_error>0.1%%', 'p99_ratio>1.5' or 'failed_checks>0'",
        repeated=True,
    ),
)


def check_pace(chosen: argparse.Namespace) -> None:
    """Raise UsageError if an option of time is given for a pace that keeps none."""
    for flag, given in (
        ("--speed", chosen.speed != 1),
        ("--ramp", chosen.ramp is not None),
        ("--max-gap", chosen.max_gap is not None),
    ):
        if given and chosen.pace == "asap":
            raise UsageError(f"{flag} has no effect at --pace asap, which waits for no captured time")


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add the commands of `kdissect replay` and their options."""
    parser.description = "Send captured traffic to another cluster and compare the responses."
    commands = parser.add_subparsers(
        dest="replay", required=True, metavar="COMMAND", parser_class=type(parser)
    )
    _add_load(commands.add_parser("load", help="read captures once, into a log that the others take"))
    for name, help in COMMANDS.items():
        _add_sending(commands.add_parser(name, help=help), name)
    compare = commands.add_parser("compare", help="report on a run again, from its files")
    compare.add_argument("run", metavar="RUN", help="directory of a run")
    _add(compare, [NOISE, BASELINE])
    add_quiet(compare)
    _add(compare, REPORT)


def _add_load(parser: argparse.ArgumentParser) -> None:
    add_reading(parser)
    parser.add_argument("--out", required=True, metavar="LOG", help="directory to create for the replay log")
    parser.set_defaults(since=None, until=None, anonymize=False, anonymize_key_file=None)
    parser.set_defaults(**{name: [] for name in ("api", "client", "topic", "group", "broker", "error")})


def _add_sending(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help=f"{WHAT_PATHS_ARE}; or one replay log")
    _add(parser, [PORT])
    add_keylog(parser)
    add_filters(parser)
    for title, options in GROUPS.items():
        _add(parser.add_argument_group(title), options)
    add_quiet(parser)
    if name == "try":
        parser.set_defaults(execute=True, prefix="", max_duration=TRY_NS)
    own = {
        "plan": [FORMAT],
        "prepare": [FORMAT, EXECUTE],
        "run": [EXECUTE, *RUN, *REPORT],
        "try": [*RUN, *REPORT],
    }
    _add(parser, own[name])
    if name == "run":
        _add(parser.add_argument_group("many machines"), MACHINES)


def _add(parser: argparse._ActionsContainer, options: Iterable[Option]) -> None:
    for option in options:
        option.add(parser)
