"""`kdissect replay plan | run | prepare | compare`: the command line of replays."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdissect.cli.filter_options import (
    add_filters,
    api,
    duration,
    narrowing,
)
from kdissect.cli.options import WHAT_PATHS_ARE, add_keylog, add_quiet, port, size
from kdissect.errors import ExitCode, UsageError, UserError
from kdissect.files import write_atomically
from kdissect.text import escape_control

if TYPE_CHECKING:
    from kdissect.exchanges.filter import MessageFilter
    from kdissect.replay.create_topics import CreatedTopic
    from kdissect.replay.engine.run import Replay
    from kdissect.replay.settings import ReplaySettings
    from kdissect.report.thresholds import Condition

    Conditions = tuple[Condition[Mapping[str, Any]], ...]

NOT_YET = "would be created"
PASSWORD_VARIABLE = "KDISSECT_SASL_PASSWORD"  # noqa: S105 - the name of a variable


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Say what may be said after `kdissect replay`."""
    parser.description = "Send captured traffic to another cluster, and tell what differed."
    commands = parser.add_subparsers(
        dest="replay", required=True, metavar="COMMAND", parser_class=type(parser)
    )
    for name, what in (
        (
            "plan",
            "say what would be sent, rewritten and skipped, and why; sends nothing that changes the target",
        ),
        ("prepare", "create the topics on the plan that the target lacks; without --execute list them"),
        ("run", "replay; without --execute the same as plan"),
    ):
        _add_common(commands.add_parser(name, help=what), name)
    compare = commands.add_parser("compare", help="report again on a run, from its files")
    compare.add_argument("run", metavar="RUN", help="directory of a run")
    compare.add_argument("--noise", metavar="RUN", help="a second, identical run: what it shows too is noise")
    add_quiet(compare)
    _add_report(compare)


def _add_common(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help=WHAT_PATHS_ARE)
    parser.add_argument(
        "--port", type=port, action="append", default=[], metavar="N", help="look only at this TCP port"
    )
    add_keylog(parser)
    target = parser.add_argument_group("the target")
    target.add_argument(
        "--target", required=True, type=_addresses, metavar="HOST:PORT[,HOST:PORT]", help="its brokers"
    )
    target.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST|NETWORK",
        help="where its metadata may lead besides the hosts of --target",
    )
    target.add_argument(
        "--i-know-target", metavar="ID", help="its cluster id, where the capture does not tell its own"
    )
    target.add_argument("--sasl", choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), help="how to log in")
    target.add_argument(
        "--user",
        metavar="NAME",
        help=f"who to log in as; the password is read from ${PASSWORD_VARIABLE} or --password-file",
    )
    target.add_argument("--password-file", metavar="FILE", help="file whose first line is the password")
    target.add_argument("--tls", action="store_true", help="speak TLS")
    target.add_argument("--tls-ca", metavar="FILE", help="certificates to trust (default: the system's)")
    target.add_argument("--tls-cert", metavar="FILE", help="our certificate and key")
    target.add_argument("--insecure", action="store_true", help="do not check the target's certificate")
    names = parser.add_argument_group("names")
    names.add_argument(
        "--prefix",
        default="replay-",
        metavar="TEXT",
        help="put before topics, groups, transactional and instance ids (default: replay-)",
    )
    names.add_argument(
        "--isolated-target", action="store_true", help="keep all names: nobody else uses the target"
    )
    for kind in ("topic", "group", "transactional-id"):
        names.add_argument(
            f"--{kind}-map",
            type=_mapping,
            action="append",
            default=[],
            metavar="OLD=NEW",
            help=f"name of a {kind.replace('-', ' ')} on the target",
        )
    names.add_argument(
        "--topic-id",
        type=_topic_id,
        action="append",
        default=[],
        metavar="ID=NAME",
        help="captured name of a topic of which the capture has only the id; plan lists such ids",
    )
    names.add_argument(
        "--client-id-prefix", default="", metavar="TEXT", help="put before client ids (default: kept)"
    )
    add_filters(parser)
    how = parser.add_argument_group("how")
    how.add_argument(
        "--groups",
        choices=("off", "simple", "full"),
        default="off",
        help="of consumer groups: nothing, commits, or membership too",
    )
    how.add_argument(
        "--offsets", choices=("auto", "identity"), default="auto", help="how positions are translated"
    )
    how.add_argument("--timestamps", choices=("keep", "shift", "now"), default="keep", help="of records")
    how.add_argument(
        "--allow",
        type=_allowable,
        action="append",
        default=[],
        metavar="API",
        help="send this destructive or creating request too",
    )
    how.add_argument("--allow-lossy", action="store_true", help="convert versions even if a field is lost")
    pace = parser.add_argument_group("pace")
    pace.add_argument(
        "--pace",
        choices=("schedule", "think", "asap"),
        default="schedule",
        help="captured times, captured thinking, or no waiting",
    )
    pace.add_argument(
        "--speed", type=_positive, default=1.0, metavar="N", help="how many times as fast as captured"
    )
    pace.add_argument("--ramp", type=duration, metavar="TIME", help="until the speed is reached")
    pace.add_argument(
        "--max-gap", type=duration, metavar="TIME", help="make longer pauses of everything this short"
    )
    pace.add_argument("--loop", type=_count, default=1, metavar="N", help="so many passes")
    pace.add_argument(
        "--processes",
        type=_count,
        default=0,
        metavar="N",
        help="that send (default: one for each core, as far as connections share nothing and there is work)",
    )
    caps = parser.add_argument_group("rails")
    caps.add_argument("--max-rps", type=_positive, metavar="N", help="requests a second")
    caps.add_argument("--max-mbps", type=_positive, metavar="N", help="megabytes a second")
    caps.add_argument(
        "--max-bytes", type=size, metavar="N", help="bytes in all that a pass sends, such as 2g"
    )
    caps.add_argument("--max-connections", type=_count, metavar="N", help="captured connections at a time")
    caps.add_argument("--max-duration", type=duration, metavar="TIME", help="of a pass")
    caps.add_argument(
        "--max-errors",
        type=_share,
        default=0.5,
        metavar="SHARE",
        help="of the answers of 10 s that may be new errors (default: 0.5)",
    )
    caps.add_argument(
        "--answer-deadline",
        type=duration,
        default=30 * 10**9,
        metavar="TIME",
        help="for an answer (default: 30s)",
    )
    add_quiet(parser)
    if name != "run":
        parser.add_argument("--format", choices=("text", "json"), default="text", help="of the answer")
    if name == "plan":
        return
    parser.add_argument(
        "--execute", action="store_true", help="do it; without this nothing changes on the target"
    )
    if name == "run":
        parser.add_argument(
            "--out", metavar="DIR", help="directory to make for the run's files (default: replay-<time>)"
        )
        parser.add_argument("--name", metavar="TEXT", help="of the run (default: its time)")
        _add_report(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=("text", "json", "html"), default="text", help="of the report on standard output"
    )
    parser.add_argument("--html", metavar="FILE", help="also write the report as one page")
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with 3 if this condition is met: a verdict (diverged, invalid) or a limit such as "
        "'new_error>0.1%%', 'p99_ratio>1.5' or 'failed_checks>0'",
    )


def replay(chosen: argparse.Namespace) -> int:
    """Run the command; give the exit code."""
    conditions = _conditions(getattr(chosen, "fail_on", ()))
    if chosen.replay == "compare":
        return _compare(chosen, conditions)
    from kdissect.replay.engine.run import Replay

    with closing(Replay(_settings(chosen), chosen.paths, chosen.port, chosen.keylog)) as made:
        made.learn()
        if chosen.replay == "prepare":
            return _prepare(chosen, made)
        return _plan_or_run(chosen, made, conditions)


def _conditions(texts: Sequence[str]) -> "Conditions":
    """Return the conditions of --fail-on. Raise UsageError for one that cannot be."""
    if not texts:
        return ()
    from kdissect.replay.results.run_thresholds import COMPARISON_VOCABULARY
    from kdissect.report.thresholds import conditions

    return conditions(texts, COMPARISON_VOCABULARY)


def _plan_or_run(chosen: argparse.Namespace, made: "Replay", conditions: "Conditions") -> int:
    from kdissect.replay.plan import make_plan
    from kdissect.replay.results.run_comparison import compare
    from kdissect.replay.results.run_files import read_run
    from kdissect.replay.results.run_text import plan_text
    from kdissect.replay.results.run_writer import save, save_pass

    plan = make_plan(made)
    if chosen.replay == "plan" or not chosen.execute:
        _write([json.dumps(plan, indent=1)] if chosen.format == "json" else plan_text(plan))
    if not plan["accounting"]["sent"]:
        raise UserError("nothing of this capture can be sent: the plan has the reasons")
    if chosen.replay == "plan" or not chosen.execute:
        return ExitCode.DONE
    folder = Path(chosen.out or f"replay-{made.settings.run}")
    if folder.exists():
        raise UsageError(f"{folder} exists already: a run's files are never overwritten")
    tell = _hold if chosen.quiet else _say
    made.play(tell, partial(save_pass, made, folder, plan))
    code = ExitCode.DONE
    for place in save(made, folder, plan):
        tell(f"wrote {place}")
        code = max(code, _report(chosen, compare(*read_run(place)), conditions))
    return code


def _compare(chosen: argparse.Namespace, conditions: "Conditions") -> ExitCode:
    from kdissect.replay.results.run_comparison import compare, without_noise
    from kdissect.replay.results.run_files import read_run

    report = compare(*read_run(Path(chosen.run)))
    if chosen.noise:
        noise = compare(*read_run(Path(chosen.noise)))
        if noise["accounting"]["captured"] != report["accounting"]["captured"]:
            raise UsageError(
                f"{chosen.noise} is a run of another capture than {chosen.run}: it tells nothing of noise"
            )
        without_noise(report, noise)
    return _report(chosen, report, conditions)


def _report(chosen: argparse.Namespace, report: dict[str, Any], conditions: "Conditions") -> ExitCode:
    from kdissect.replay.results.run_page import page
    from kdissect.replay.results.run_text import comparison_text

    if chosen.html:
        write_atomically(Path(chosen.html), page(report))
    if chosen.format == "json":
        _write([json.dumps(report, indent=1)])
    else:
        _write([page(report)] if chosen.format == "html" else comparison_text(report))
    sentences = [sentence for condition in conditions for sentence in condition.met(report)]
    for sentence in sentences:
        _say(sentence)
    return ExitCode.CONDITION_MET if sentences else ExitCode.DONE


def _prepare(chosen: argparse.Namespace, made: "Replay") -> int:
    from kdissect.replay.create_topics import (
        CREATED,
        CreatedTopic,
        create_topics,
        missing_topics,
    )

    wanted = missing_topics(made)
    if chosen.execute and wanted:
        outcomes = made.errand(create_topics(made.stage(), wanted))
    else:
        outcomes = [CreatedTopic(each, NOT_YET) for each in wanted]
    if chosen.format == "json":
        topics = [each.wanted._asdict() | {"outcome": each.outcome} for each in outcomes]
        _write([json.dumps({"topics": topics}, indent=1)])
    else:
        _write(_prepared(outcomes))
    created = all(each.outcome in (CREATED, NOT_YET) for each in outcomes)
    return ExitCode.DONE if created else ExitCode.FAILED


def _prepared(outcomes: "list[CreatedTopic]") -> list[str]:
    from kdissect.text import escape

    if not outcomes:
        return ["every topic is on the target already"]
    lines = [
        f"{escape(each.wanted.name)}: {each.outcome}, {each.wanted.partitions} partitions, {each.wanted.replicas} replicas"
        for each in outcomes
    ]
    untouched = all(each.outcome == NOT_YET for each in outcomes)
    return [*lines, "nothing was created: --execute does it"] if untouched else lines


def _settings(chosen: argparse.Namespace) -> "ReplaySettings":
    from kdissect.replay.settings import (
        Breaker,
        Caps,
        Groups,
        Offsets,
        Pace,
        ReplaySettings,
        Timestamps,
        Tls,
    )

    start = time.strftime("%Y%m%dT%H%M%S")
    return ReplaySettings(
        target=tuple(chosen.target),
        run=getattr(chosen, "name", None) or start,
        prefix="" if chosen.isolated_target else chosen.prefix,
        topic_map=dict(chosen.topic_map),
        topic_ids=dict(chosen.topic_id),
        group_map=dict(chosen.group_map),
        transactional_map=dict(chosen.transactional_id_map),
        allowed_hosts=tuple(chosen.allow_host),
        known_target=chosen.i_know_target,
        allowed_apis=frozenset(one.key for one in chosen.allow),
        allow_lossy=chosen.allow_lossy,
        groups=Groups(chosen.groups),
        offsets=Offsets(chosen.offsets),
        timestamps=Timestamps(chosen.timestamps),
        pace=Pace(chosen.pace),
        speed=chosen.speed,
        ramp_s=(chosen.ramp or 0) / 1e9,
        loops=chosen.loop,
        processes=chosen.processes,
        max_gap_ns=chosen.max_gap,
        filter=partial(_filter, chosen),
        caps=Caps(
            chosen.max_rps,
            chosen.max_mbps * 1e6 if chosen.max_mbps else None,
            chosen.max_connections,
            chosen.max_duration / 1e9 if chosen.max_duration else None,
            chosen.max_bytes,
        ),
        breaker=Breaker(error_share=chosen.max_errors),
        credentials=_credentials(chosen),
        tls=Tls(chosen.tls_ca, chosen.tls_cert, chosen.insecure)
        if chosen.tls or chosen.insecure or chosen.tls_ca
        else None,
        client_id_prefix=chosen.client_id_prefix,
        answer_deadline_s=chosen.answer_deadline / 1e9,
        dependency_deadline_s=1.5 * chosen.answer_deadline / 1e9,
    )


def _filter(chosen: argparse.Namespace, start_ns: int) -> "MessageFilter":
    from kdissect.exchanges.filter import MessageFilter

    return MessageFilter(**narrowing(chosen, start_ns))


def _credentials(chosen: argparse.Namespace) -> Any:
    from kdissect.replay.settings import Credentials

    if not chosen.sasl:
        return None
    if not chosen.user:
        raise UsageError("--sasl needs --user")
    if chosen.password_file:
        password = Path(chosen.password_file).read_text("utf-8").split("\n", 1)[0]
    else:
        password = os.environ.get(PASSWORD_VARIABLE, "")
    if not password:
        raise UsageError(f"--sasl needs a password: in --password-file or in ${PASSWORD_VARIABLE}")
    return Credentials(chosen.sasl, chosen.user, password)


def _write(lines: Iterable[str]) -> None:
    sys.stdout.buffer.write("\n".join([*lines, ""]).encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def _hold(_text: str) -> None:
    """Say nothing."""


def _say(text: str) -> None:
    sys.stderr.write(f"kdissect: {escape_control(text)}\n")


def _addresses(text: str) -> list[tuple[str, int]]:
    found = []
    for part in text.split(","):
        host, _, number = part.strip().rpartition(":")
        if not host or not number.isdecimal() or not 0 < int(number) < 65536:
            raise argparse.ArgumentTypeError(f"{part!r} is no address; kafka.test:9092 and [::1]:9092 are")
        found.append((host.strip("[]"), int(number)))
    return found


def _allowable(text: str) -> Any:
    from kdissect.protocol.api_keys import ADMIN
    from kdissect.protocol.schema.registry import api_name
    from kdissect.replay.load.policy import NEVER

    key = api(text).key
    if key not in ADMIN:
        what = "is never sent" if key in NEVER else "needs no --allow"
        raise argparse.ArgumentTypeError(f"{api_name(key)} {what}; it is for {_names(ADMIN)}")
    return api(text)


def _names(keys: Iterable[int]) -> str:
    from kdissect.protocol.schema.registry import api_name

    return ", ".join(map(api_name, sorted(keys)))


def _mapping(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old or not new:
        raise argparse.ArgumentTypeError(f"{text!r} is no mapping; orders=orders-test is")
    return old, new


def _topic_id(text: str) -> tuple[bytes, str]:
    from kdissect.exchanges.describe import uuid_from

    identity = text.partition("=")[0]
    try:
        return uuid_from(identity), _mapping(text)[1]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{identity!r} is no topic id; kV3-SCzWQrWjOQGfzQwfXg=orders is one with its name"
        ) from None


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value


def _share(text: str) -> float:
    value = _positive(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; 0.1 is")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)
