"""`replay.engine.fast_path.alike_in_flight`: as requests in parts, for every answer and every moment."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.engine.fast_path.alike_in_flight import AlikeInFlight, AlikePath
from kdissect.replay.engine.fast_path.alike_produces import AlikeProduces
from kdissect.replay.engine.pass_results import RequestResult
from kdissect.replay.load.spool import SpoolSlot
from kdissect.replay.settings import Caps, Pace, ReplaySettings
from tests.helpers.paper_cluster import ADD, END, INIT, PRODUCE, Cluster, batch, issued, produce, took
from tests.helpers.paper_target import OnPaper, Script, Tree, play, settings, topology
from tests.replay.engine.fast_path.test_contract import Recorder, Willing

LAST = 240  # requests


def traffic(seed: int, in_flight: int) -> Script:
    """Return requests of four producers, of which two are idempotent and one has transactions."""
    chance, script, offset = Random(seed), Script(), 0
    sequences = [0, 0, 0, 0]
    for connection in (1, 2):
        name = "transfers" if connection == 2 else None
        asked: Tree = {"transactional_id": name, "transaction_timeout_ms": 1}
        script.add(connection, INIT, 3, asked, issued(900 + connection, 4), connection=connection)
    who: Tree = {"producer_id": 902, "producer_epoch": 4, "transactional_id": "transfers"}
    older = {f"v3_and_below_{name}": value for name, value in who.items()}
    for number in range(LAST):
        if number % 24 == 0:
            add = older | {"v3_and_below_topics": [{"name": "orders", "partitions": [0]}]}
            script.add(10 + number, ADD, 3, add, {"results_by_topic_v3_and_below": []}, connection=2)
        if number % 24 == 20:
            script.add(10 + number, END, 3, who | {"committed": True}, {"error_code": 0}, connection=2)
        connection, records = chance.randrange(4), chance.choice([1, 1, 2, 9, 60])
        text = b"%d" % chance.choice([number, 10**9 + number])
        numbered = connection in (1, 2)
        made = batch(
            sequences[connection] if numbered else -1,
            producer=900 + connection,
            records=records,
            text=text,
        )
        sequences[connection] += records
        name = "transfers" if connection == 2 else None
        body = produce(made, acks=0 if connection == 3 and number % 2 else -1, transaction=name)
        answer = took(0 if chance.random() < 0.9 else 7, base=offset) if body["acks"] else None
        offset += records
        client = f"client-{connection}"
        script.add(
            10 + number,
            PRODUCE,
            9,
            body,
            answer,
            connection=connection,
            client_id=client,
            in_flight=in_flight,
        )
    return script


class Fickle(Willing):
    """A target that refuses some batches, throttles after some, and does not answer others."""

    def __init__(self, seed: int, share: float) -> None:
        super().__init__()
        self.chance, self.share = Random(seed), share

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        if key == PRODUCE and self.chance.random() < self.share:
            error = self.chance.choice(
                [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.NONE, None]
            )
            if error is None:
                return None
            if error:
                self.errors["key0"] = [error]
            answer = super().__call__(key, version, body)
            return None if answer is None else answer | {"throttle_time_ms": self.chance.choice([0, 30])}
        return super().__call__(key, version, body)


def outcome(done: OnPaper) -> dict[str, object]:
    """Return all that a replay leaves behind, but for where answers lie in the spool."""

    def plain(result: RequestResult) -> RequestResult:
        result.answers = tuple((version, SpoolSlot(0, slot.size)) for version, slot in result.answers)
        return result

    context, player = done.context, done.player
    known = context.positions.partition(("orders", 0))
    recent = player.recent
    return {
        "results": sorted(map(plain, player.results), key=lambda each: each.index),
        "answers": [
            [done.player.spool.get(slot) for _, slot in each.answers]
            for each in sorted(player.results, key=lambda each: each.index)
        ],
        "notes": dict(context.notes.by_request),
        "produced": dict(context.notes.produced),
        "counts": context.notes.counts,
        "offsets": [list(each) for each in (known.batches.captured.begins, known.batches.target.begins)],
        "end": known.target_end,
        "numberings": {
            key: (each.epoch, each.taken, each.under_way, each.unsure)
            for key, each in context.producers._numberings.items()
        },
        "recent": recent,
        "open": dict(context.transactions.open),
        "stopped": player.outcome().stopped,
        "peak": player.outcome().peak_in_flight,
        "counters": player.outcome().counters,
    }


def replayed(
    script: Script,
    respond: Callable[[], Cluster],
    asked: ReplaySettings,
    patch: pytest.MonkeyPatch,
    alike: bool,
) -> tuple[dict[str, object], dict[tuple[object, int], list[bytes]], int]:
    """Return what a replay leaves behind, its frames, and how many went the way of those that are alike."""
    sent: list[bool] = []
    send = AlikePath.send

    def noted_send(self: AlikePath, *more: object) -> bool:
        sent.append(send(self, *more))  # type: ignore[arg-type]
        return sent[-1]

    with patch.context() as within:
        within.setattr(AlikePath, "send", noted_send)
        if not alike:
            within.setattr(AlikeProduces, "_search", lambda _self, columns: [None] * len(columns[0]))
            within.setattr(AlikeProduces, "find", lambda *_: None)
        recorder = Recorder(respond())
        done = play(script.capture(), script.shelf, recorder, topology({"t-orders": 3}), asked, prepared=True)
    return outcome(done), recorder.frames, sum(sent)


@pytest.mark.parametrize(
    ("in_flight", "pace", "share", "caps"),
    [
        (1, Pace.ASAP, 0.0, Caps()),
        (5, Pace.ASAP, 0.0, Caps()),
        (1, Pace.ASAP, 0.1, Caps()),
        (5, Pace.ASAP, 0.1, Caps()),
        (5, Pace.SCHEDULE, 0.1, Caps()),
        (3, Pace.THINK, 0.05, Caps()),
        (5, Pace.SCHEDULE, 0.0, Caps(requests_per_second=700.0)),
        (5, Pace.ASAP, 0.0, Caps(connections=2)),
        (5, Pace.ASAP, 0.02, Caps(bytes_in_all=15_000)),
    ],
)
def test_the_outcome_is_that_of_requests_in_parts(
    in_flight: int, pace: Pace, share: float, caps: Caps, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = settings(pace=pace, caps=caps, answer_deadline_s=0.5, dependency_deadline_s=2.0)
    script = traffic(in_flight, in_flight)
    alike, frames, count = replayed(script, lambda: Fickle(3, share), asked, monkeypatch, True)
    plain, plain_frames, none = replayed(script, lambda: Fickle(3, share), asked, monkeypatch, False)
    assert (none, count > 40) == (0, True)
    assert frames == plain_frames
    for name, value in plain.items():
        assert alike[name] == value, name


def test_a_wrong_offset_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    script, asked = traffic(1, 1), settings(pace=Pace.ASAP)
    plain, _, _ = replayed(script, Cluster, asked, monkeypatch, False)
    take = AlikePath._take

    def shifted_take(self: AlikePath, request: AlikeInFlight) -> None:
        offset = request.alike.offset or 0
        request.alike = request.alike._replace(offset=offset + 1)
        take(self, request)

    monkeypatch.setattr(AlikePath, "_take", shifted_take)
    alike, _, _ = replayed(script, Cluster, asked, monkeypatch, True)
    assert alike["offsets"] != plain["offsets"]
