"""`kdissect replay`: from options to a plan, a run and its files, and an exit code.

Reports and plans go to standard output, everything else to standard error. A capture of which nothing can be
sent is a `UserError` (exit code 2). A run that diverged, or that meets a `--fail-on` condition, is exit code
3, and one that says nothing about the target is exit code 4. Topics that could not be created are exit code
1.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdissect.capture.formats.file_types import check_paths
from kdissect.cli.captured_logs import logged_paths
from kdissect.cli.context import notify, silent
from kdissect.cli.filter_options import filter_fields
from kdissect.cli.interrupt import Ending
from kdissect.cli.replay_load import load_log
from kdissect.cli.replay_machines import check_machines, machines, rates_on_machines, run_on_machines
from kdissect.cli.replay_options import check_pace
from kdissect.cli.secret_sources import KEY_PASSWORD_VARIABLE, PASSWORD_VARIABLE, read_secret
from kdissect.errors import ExitCode, OutputError, UsageError, UserError
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.files import write_atomically
from kdissect.replay.addresses import is_loopback
from kdissect.replay.create_topics import CREATED, CreatedTopic, create_topics, missing_topics
from kdissect.replay.engine.preflight import brokers_of_log, check_output, check_target
from kdissect.replay.engine.run import PlayedPass, Replay
from kdissect.replay.load.requests import refuse_unmatched
from kdissect.replay.plan import make_plan
from kdissect.replay.results.pass_rate import rate_text, sending_time
from kdissect.replay.results.run_comparison import baseline_latencies, compare, without_noise
from kdissect.replay.results.run_files import pair_lines, read_run, run_summary, save_pass
from kdissect.replay.results.run_page import page
from kdissect.replay.results.run_text import comparison_text, names_left, pace_words, plan_text
from kdissect.replay.results.run_verdicts import COMPARISON_VOCABULARY, EXIT_CODES
from kdissect.replay.safety import no_plaintext
from kdissect.replay.settings import (
    DRY_CLUSTER,
    DRY_TARGET,
    Breaker,
    Caps,
    Credentials,
    Groups,
    Offsets,
    Pace,
    ReplaySettings,
    Timestamps,
    Tls,
)
from kdissect.report.thresholds import Condition, conditions
from kdissect.text import escape

if TYPE_CHECKING:
    from kdissect.spark.session import Engine

Conditions = Sequence[Condition[Mapping[str, Any]]]

PROGRESS_S = 2.0  # between two reports of progress
NOT_YET = "would be created"
NOT_DONE = {
    "load": "no replay log was written",
    "plan": "nothing was planned",
    "prepare": "nothing was created",
    "run": "nothing was sent",
    "try": "nothing was created or sent",
    "compare": "nothing was compared",
}
MAYBE_CREATED = "nothing was sent, and some of the topics may have been created"
NOT_WRITTEN = "requests may have been sent, and the files of the run were not written"
NOT_REPORTED = "the files of the run are in {}, and kdissect replay compare reports on them"
DEPENDENCY_FACTOR = 1.5  # a request waits for another one for longer than that may wait for its response


def replay(chosen: argparse.Namespace) -> int:
    """Run the command. Return the exit code."""
    ending = Ending(NOT_DONE[chosen.replay])
    with ending.told():
        if chosen.replay != "load":
            return _replay(chosen, ending)
        load_log(chosen)
        return ExitCode.DONE


def _replay(chosen: argparse.Namespace, ending: Ending) -> int:
    """Run a command other than `load`. Return the exit code."""
    fail_on = conditions(getattr(chosen, "fail_on", ()), COMPARISON_VOCABULARY)
    if chosen.replay == "compare":
        return _compare(chosen, fail_on)
    settings, notice = settings_of(chosen), silent if chosen.quiet else _say
    executes = chosen.replay in ("run", "try") and chosen.execute
    if executes and not chosen.dry_target:
        check_output(_run_folder(chosen, settings), chosen.paths)
    if chosen.keylog and not os.path.exists(chosen.keylog):
        raise UsageError(f"{chosen.keylog}: no such file or directory")
    on_machines = getattr(chosen, "master", None)
    if chosen.replay == "run":
        check_machines(chosen)
    check_paths(chosen.paths)
    known_brokers = brokers_of_log(chosen.paths)
    check_target(settings, known_brokers)
    progress = LoadProgress(notice)
    with ExitStack() as stack:
        engine = stack.enter_context(machines(chosen, notice)) if on_machines and executes else None
        source = logged_paths(chosen, stack, notice)
        loaded = Replay(settings, *source, progress, progress.looked)
        prepared = stack.enter_context(closing(loaded))
        refuse_unmatched(prepared.capture)
        if settings.credentials and known_brokers is None:
            check_target(settings, prepared.loaded.source)  # with the login
        prepared.learn()
        if chosen.replay == "prepare":
            return _prepare(chosen, prepared, ending)
        if chosen.replay == "try":
            _prepare_try(prepared, notice, ending)
        if engine is not None:
            return _run_on_machines(chosen, engine, prepared, fail_on, ending)
        if executes:
            return _run(chosen, prepared, make_plan(prepared), fail_on, ending)
        return _plan(chosen, make_plan(prepared, prepared=True))


def _prepare_try(prepared: Replay, notice: Callable[[str], None], ending: Ending) -> None:
    """Create the topics that are missing, and report what will be sent."""
    missing = missing_topics(prepared)
    if missing:
        ending.left = MAYBE_CREATED
        for each in prepared.run_alone(create_topics(prepared.context(), missing)):
            if each.outcome != CREATED:
                raise UserError(f"topic {escape(each.wanted.name)} could not be created: {each.outcome}")
        prepared.learn()
    plan = make_plan(prepared)
    sums = plan["accounting"]
    notice(f"topics created: {len(missing)}; requests to send: {sums['sent']:,} of {sums['captured']:,}")
    if not prepared.settings.dry_partitions:
        notice(names_left(prepared.settings.prefix))
    notice(pace_words(plan))


class LoadProgress:
    """Reports how many requests are loaded, now and then."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice, self._next_s = notice, time.monotonic() + PROGRESS_S

    def __call__(self, requests: int) -> None:
        """Report the number of requests, unless that was done a moment ago."""
        self._report(f"loading: {requests:,} requests")

    def looked(self, done: int, requests: int) -> None:
        """Report how many of the loaded requests were looked at, unless that was done a moment ago."""
        self._report(f"loading: looked at {done:,} of {requests:,} requests")

    def _report(self, text: str) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + PROGRESS_S
            self._notice(text)


def _plan(chosen: argparse.Namespace, plan: dict[str, Any]) -> ExitCode:
    _write([json.dumps(plan, indent=1)] if chosen.format == "json" else plan_text(plan))
    if not plan["accounting"]["sent"]:
        raise UserError("no request of this capture can be sent; the plan lists the reasons")
    return ExitCode.DONE


def _run(
    chosen: argparse.Namespace,
    prepared: Replay,
    plan: dict[str, Any],
    fail_on: Conditions,
    ending: Ending,
) -> ExitCode:
    """Send the traffic, write the files of every pass, and report on each."""
    _refuse_nothing(plan)
    ending.left = NOT_WRITTEN
    folder = _run_folder(chosen, prepared.settings)
    notice = silent if chosen.quiet else _say
    if prepared.settings.dry_partitions:
        prepared.play(notice)
        _write(rate_text(sending_time(played.outcome.results)) for played in prepared.passes)
        return ExitCode.DONE
    prepared.play(notice, partial(save_pass, prepared, folder, plan), folder)
    code = ExitCode.DONE
    for number, played in enumerate(prepared.passes):
        try:
            place = save_pass(prepared, folder, plan, number, played)
        except (OSError, OutputError) as error:
            code = max(code, _report_unsaved(chosen, prepared, plan, played, fail_on))
            raise OutputError(f"the files of the run could not be written: {error}") from None
        notice(f"wrote {place}")
        ending.left = NOT_REPORTED.format(place)
        code = max(code, _report(chosen, compare(*read_run(place)), fail_on))
    return code


def _run_on_machines(
    chosen: argparse.Namespace, engine: "Engine", prepared: Replay, fail_on: Conditions, ending: Ending
) -> ExitCode:
    """Have the executors of Spark send the traffic, and report on every pass."""
    plan = make_plan(prepared)
    _refuse_nothing(plan)
    notice = silent if chosen.quiet else _say
    if prepared.settings.dry_partitions:
        _write(rates_on_machines(chosen, engine, prepared, notice))
        return ExitCode.DONE
    folder = _run_folder(chosen, prepared.settings)
    code = ExitCode.DONE
    ending.left = NOT_WRITTEN
    for place in run_on_machines(chosen, engine, prepared, folder, plan, notice):
        notice(f"wrote {place}")
        ending.left = NOT_REPORTED.format(place)
        code = max(code, _report(chosen, compare(*read_run(place)), fail_on))
    return code


def _refuse_nothing(plan: Mapping[str, Any]) -> None:
    """Raise UserError if nothing can be sent."""
    if not plan["accounting"]["sent"]:
        raise UserError("no request of this capture can be sent; kdissect replay plan lists the reasons")


def _report_unsaved(
    chosen: argparse.Namespace,
    prepared: Replay,
    plan: dict[str, Any],
    played: PlayedPass,
    fail_on: Conditions,
) -> ExitCode:
    """Report on a pass whose files cannot be written."""
    pairs = map(json.loads, pair_lines(prepared, played))
    return _report(chosen, compare(run_summary(prepared, played, plan), pairs), fail_on)


def _run_folder(chosen: argparse.Namespace, settings: ReplaySettings) -> Path:
    return Path(chosen.out or f"replay-{settings.run}")


def _compare(chosen: argparse.Namespace, fail_on: Conditions) -> ExitCode:
    baseline = baseline_latencies(read_run(Path(chosen.baseline))[1]) if chosen.baseline else None
    report = compare(*read_run(Path(chosen.run)), baseline)
    if chosen.noise:
        noise = compare(*read_run(Path(chosen.noise)))
        if noise["accounting"]["captured"] != report["accounting"]["captured"]:
            raise UsageError(
                f"{chosen.noise} is a run of another capture than {chosen.run}, so it cannot show noise"
            )
        without_noise(report, noise)
    return _report(chosen, report, fail_on)


def _report(chosen: argparse.Namespace, report: dict[str, Any], fail_on: Conditions) -> ExitCode:
    if chosen.html:
        write_atomically(Path(chosen.html), page(report))
    if chosen.format == "json":
        _write([json.dumps(report, indent=1)])
    else:
        _write([page(report)] if chosen.format == "html" else comparison_text(report))
    sentences = [sentence for condition in fail_on for sentence in condition.met(report)]
    for sentence in sentences:
        _say(sentence)
    return max(EXIT_CODES[report["verdict"]], ExitCode.CONDITION_MET if sentences else ExitCode.DONE)


def _prepare(chosen: argparse.Namespace, prepared: Replay, ending: Ending) -> ExitCode:
    missing = missing_topics(prepared)
    if chosen.execute and missing:
        ending.left = MAYBE_CREATED
        outcomes = prepared.run_alone(create_topics(prepared.context(), missing))
    else:
        outcomes = [CreatedTopic(each, NOT_YET) for each in missing]
    if chosen.format == "json":
        topics = [each.wanted._asdict() | {"outcome": each.outcome} for each in outcomes]
        _write([json.dumps({"topics": topics}, indent=1)])
    else:
        _write(_prepared_text(outcomes))
    created = all(each.outcome in (CREATED, NOT_YET) for each in outcomes)
    return ExitCode.DONE if created else ExitCode.USER_ERROR


def _prepared_text(outcomes: Sequence[CreatedTopic]) -> list[str]:
    if not outcomes:
        return ["every topic is on the target already"]
    lines = [
        f"{escape(topic.name)}: {outcome}, {topic.partitions} partitions, {topic.replicas} replicas"
        for topic, outcome in outcomes
    ]
    untouched = all(each.outcome == NOT_YET for each in outcomes)
    return [*lines, "nothing was created: --execute does it"] if untouched else lines


def settings_of(chosen: argparse.Namespace) -> ReplaySettings:
    """Return the settings that the options ask for.

    Raise UsageError for options that contradict each other, a login without user or password, or one that
    would travel unprotected.
    """
    if bool(chosen.target) == chosen.dry_target:
        raise UsageError("--target names the brokers that are sent to; --dry-target sends to memory instead")
    if chosen.dry_target:
        chosen.target, chosen.i_know_target = [DRY_TARGET], DRY_CLUSTER
    check_pace(chosen)
    credentials, tls = _credentials(chosen), _tls(chosen)
    if credentials and tls is None and not chosen.plaintext_credentials:
        for host, port in chosen.target:
            if not is_loopback(host):
                raise UsageError(no_plaintext((host, port)))
    run = getattr(chosen, "name", None) or time.strftime("%Y%m%dT%H%M%S")
    prefix = chosen.prefix or f"try-{run}-" if chosen.replay == "try" else chosen.prefix
    return ReplaySettings(
        target=tuple(chosen.target),
        dry_partitions=int(chosen.dry_target),
        run=run,
        prefix="" if chosen.isolated_target else prefix,
        topic_map=dict(chosen.topic_map),
        topic_ids=dict(chosen.topic_id),
        group_map=dict(chosen.group_map),
        transactional_map=dict(chosen.transactional_id_map),
        allowed_hosts=tuple(chosen.allow_host),
        known_target=chosen.i_know_target,
        allowed_apis=frozenset(each.key for each in chosen.allow),
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
        caps=_caps(chosen),
        breaker=Breaker(error_share=chosen.max_errors),
        credentials=credentials,
        plaintext_credentials=chosen.plaintext_credentials,
        tls=tls,
        client_id_prefix=chosen.client_id_prefix,
        answer_deadline_s=chosen.answer_deadline / 1e9,
        dependency_deadline_s=DEPENDENCY_FACTOR * chosen.answer_deadline / 1e9,
    )


def _filter(chosen: argparse.Namespace, start_ns: int) -> ExchangeFilter:
    return ExchangeFilter(**filter_fields(chosen, start_ns))


def _caps(chosen: argparse.Namespace) -> Caps:
    return Caps(
        requests_per_second=chosen.max_rps,
        bytes_per_second=chosen.max_mbps * 1e6 if chosen.max_mbps else None,
        connections=chosen.max_connections,
        duration_s=chosen.max_duration / 1e9 if chosen.max_duration else None,
        bytes_in_all=chosen.max_bytes,
    )


def _tls(chosen: argparse.Namespace) -> Tls | None:
    """Return how to speak TLS; None if no option of TLS is given."""
    file = chosen.tls_key_password_file
    if file and not chosen.tls_cert:
        raise UsageError("--tls-key-password-file needs --tls-cert, whose key it opens")
    if not (chosen.tls or chosen.insecure or chosen.tls_ca or chosen.tls_cert):
        return None
    password = None
    if chosen.tls_cert:
        password = read_secret("password of the TLS key", file, KEY_PASSWORD_VARIABLE, _say)
    return Tls(chosen.tls_ca, chosen.tls_cert, chosen.insecure, password)


def _credentials(chosen: argparse.Namespace) -> Credentials | None:
    if not chosen.sasl:
        return None
    if not chosen.user:
        raise UsageError("--sasl needs --user")
    password = read_secret("password", chosen.password_file, PASSWORD_VARIABLE, _say)
    if not password:
        raise UsageError(f"--sasl needs a password: in --password-file or in ${PASSWORD_VARIABLE}")
    return Credentials(chosen.sasl, chosen.user, password)


def _write(lines: Iterable[str]) -> None:
    sys.stdout.buffer.write("\n".join([*lines, ""]).encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def _say(text: str) -> None:
    notify(f"kdissect: {text}")
