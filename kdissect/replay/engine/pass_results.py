"""Results of a pass: the end of each captured request, and what was noted beside it.

`ResultTable` keeps results as rows of numbers in a file, since a run of hours must not fill memory, nor make
objects that stay and that the garbage collector would visit again and again. The responses themselves lie in
a spool. A `PassOutcome` is what the files of the run are made from; those of several processes are merged.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int32s, Int64s
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import ANY, Answer
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.request_table import ROWS_AT_ONCE
from kdissect.replay.load.row_file import RowFile
from kdissect.replay.load.spool import SpoolSlot
from kdissect.replay.net.pool_counters import PoolCounters
from kdissect.replay.pass_state import Batches, RequestValues, Texts, add_values
from kdissect.replay.target.offsets import Rule

ROW = struct.Struct("<17q")  # the fields of a `RequestResult`, with codes for disposition and texts
COLUMNS = ROW.size // 8
INDEX, DISPOSITION, REASON, SENT, CAUSE, SPOOL = 0, 1, 2, 4, 6, 16  # columns
ENDING = struct.Struct("<3q")  # index, disposition, reason: how a row begins
UNKNOWN = -(1 << 63)  # stands for None
UNPLACED = -1
DISPOSITIONS = tuple(Disposition)
CODES = {disposition: code for code, disposition in enumerate(DISPOSITIONS)}
ANSWERED = CODES[Disposition.ANSWERED]
WORST_FIRST = (
    Disposition.TIMED_OUT,
    Disposition.CLOSED,
    Disposition.FAILED_TO_SEND,
    Disposition.NO_ANSWER_DUE,
    Disposition.ANSWERED,
)


NOT_SENT = (UNKNOWN, UNKNOWN, UNKNOWN, 0, ANY, UNKNOWN, 0, 0, 0, 0, UNKNOWN, 0, 0, 0)  # behind an `ENDING`


@dataclass(slots=True)
class RequestResult:
    """The end of one captured request. Times are ns on the clock of the run."""

    index: int  # its place in the capture
    bucket: Disposition
    reason: str = ""  # why it was skipped
    due_ns: int | None = None
    sent_ns: int | None = None
    received_ns: int | None = None
    cause: str = ""  # why it was sent late
    node: int = ANY
    version: int | None = None
    parts: int = 0
    sent_bytes: int = 0
    throttle_ms: int = 0
    again: int = 0  # how many of the last answers are to what was sent again
    answers: tuple[tuple[int, SpoolSlot], ...] = ()  # (version, frame)
    spool: int = 0  # the number of the process that sent it, and keeps its answers

    @property
    def lag_ns(self) -> int | None:
        """Return how much later than due it was sent; None if it was not sent."""
        return None if self.sent_ns is None or self.due_ns is None else max(self.sent_ns - self.due_ns, 0)


class ResultTable:
    """All results of a pass, in the order in which requests ended."""

    def __init__(self, shared: bool = False) -> None:
        """`shared` is a table that a forked process fills, see `RowFile`."""
        self.rows = RowFile(ROW.size, shared)
        self.texts: dict[str, int] = {"": 0}  # reasons and causes, with their numbers
        self._listed: list[str] = []  # the same in their order, as far as somebody has wanted them
        self.more: dict[int, tuple[tuple[int, SpoolSlot], ...]] = {}  # index -> the answers after the first

    def append(self, result: RequestResult) -> None:
        """Add a result."""
        answers = result.answers
        version, (position, size) = answers[0] if answers else (UNKNOWN, (0, 0))
        if len(answers) > 1:
            self.more[result.index] = answers[1:]
        row = ROW.pack(
            result.index,
            CODES[result.bucket],
            self._text(result.reason),
            _number(result.due_ns),
            _number(result.sent_ns),
            _number(result.received_ns),
            self._text(result.cause),
            result.node,
            _number(result.version),
            result.parts,
            result.sent_bytes,
            result.throttle_ms,
            result.again,
            version,
            position,
            size,
            result.spool,
        )
        self.rows.append(row)

    def append_skipped(self, index: int, disposition: Disposition, reason: str) -> None:
        """Add the result of a request that was not sent."""
        self.rows.append(ROW.pack(index, CODES[disposition], self._text(reason), *NOT_SENT))

    def append_answered(self, index: int, due_ns: int, cause: str, answer: Answer, position: int) -> None:
        """Add the result of a request in one part that was answered, by the frame at `position` in the spool.

        This is how nearly all requests end, so no `RequestResult` is made.
        """
        version, frame = answer.part.version, answer.frame
        assert frame is not None
        row = ROW.pack(
            index,
            ANSWERED,
            0,
            due_ns,
            answer.sent_ns,
            answer.received_ns,
            self._text(cause) if cause else 0,
            answer.node,
            version,
            1,
            answer.sent_bytes,
            answer.throttle_ms,
            0,
            version,
            position,
            len(frame),
            0,
        )
        self.rows.append(row)

    def _text(self, text: str) -> int:
        """Return the number of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def append_all_skipped(self, indices: Int64s, disposition: Disposition, reason: str) -> None:
        """Add the results of many requests that were not sent, for one reason."""
        for begin in range(0, len(indices), ROWS_AT_ONCE):
            some = indices[begin : begin + ROWS_AT_ONCE]
            rows = np.empty((len(some), COLUMNS), np.int64)
            rows[:, INDEX] = some
            rows[:, INDEX + 1 :] = (CODES[disposition], self._text(reason), *NOT_SENT)
            self.rows.append(rows.tobytes())

    def extend(self, other: "ResultTable", spool: int) -> None:
        """Add the results of another process, whose answers lie in the spool of this number."""
        numbers = np.array([self._text(text) for text in other.texts], np.int64)
        for block in other.rows.blocks():
            rows = np.frombuffer(block, np.int64).reshape(-1, COLUMNS).copy()
            for column in (REASON, CAUSE):
                rows[:, column] = numbers[rows[:, column]]
            rows[:, SPOOL] = spool
            self.rows.append(rows.tobytes())
        self.more |= other.more

    def take_over(self, other: "ResultTable") -> None:
        """Have what another process has put into this shared table, by what it told of it."""
        self.rows.take_over(other.rows)
        self.texts, self.more = other.texts, other.more

    def since(self, number: int) -> "ResultTable":
        """Return the results after the first `number`."""
        part = ResultTable()
        for block in self.rows.blocks(number):
            part.rows.append(block)
        part.texts = dict(self.texts)
        if self.more:
            part.more = {index: self.more[index] for index in part.indices() if index in self.more}
        return part

    def indices(self) -> list[int]:
        """Return the places of the requests in the capture."""
        indices: list[int] = self.column(INDEX).tolist()
        return indices

    def in_order(self) -> Int32s:
        """Return the numbers of all results, in the order of the capture: each request has one."""
        order, number = np.empty(0, np.int32), 0
        for (index,) in self._column_blocks(INDEX):
            missing = int(index.max()) + 1 - len(order)
            if missing > 0:
                order = np.append(order, np.full(max(missing, len(order)), UNPLACED, np.int32))
            order[index] = np.arange(number, number + len(index))
            number += len(index)
        placed: Int32s = order[order != UNPLACED]
        return placed

    def ended_as(self, disposition: Disposition) -> NDArray[np.bool_]:
        """Return which results have a disposition."""
        parts = [codes == CODES[disposition] for (codes,) in self._column_blocks(DISPOSITION)]
        return np.concatenate([np.zeros(0, bool), *parts])

    def counted(
        self, some: NDArray[np.bool_], keys: NDArray[Any]
    ) -> list[tuple[tuple[int, Disposition, str], int]]:
        """Return how many of some results have the same API, disposition and reason.

        Those of the first request come first. `keys` are the APIs of requests by their index.
        """
        texts, begin = self._text_list(), 0
        found: dict[int, tuple[int, int]] = {}  # kind -> its first request, and how many it has
        for columns in self._column_blocks(INDEX, DISPOSITION, REASON):
            chosen = some[begin : begin + len(columns[0])]
            begin += len(chosen)
            index, disposition, reason = (column[chosen] for column in columns)
            codes = (keys[index].astype(np.int64) * len(DISPOSITIONS) + disposition) * len(texts) + reason
            kinds, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
            firsts = np.full(len(kinds), len(keys))
            np.minimum.at(firsts, place, index)
            for kind, first, count in zip(kinds.tolist(), firsts.tolist(), counts.tolist(), strict=True):
                earlier, before = found.get(kind, (first, 0))
                found[kind] = min(first, earlier), before + count
        counted = []
        for kind, (_, count) in sorted(found.items(), key=lambda each: each[1]):
            rest, text = divmod(kind, len(texts))
            key, code = divmod(rest, len(DISPOSITIONS))
            counted.append(((key, DISPOSITIONS[code], texts[text]), count))
        return counted

    def _column_blocks(self, *numbers: int) -> Iterator[tuple[Int64s, ...]]:
        """Yield columns, of many rows at a time."""
        for block in self.rows.blocks():
            rows = np.frombuffer(block, np.int64)
            yield tuple(rows[number::COLUMNS] for number in numbers)

    def sent_ns(self) -> Int64s:
        """Return when requests were sent, of those that were."""
        column = self.column(SENT)
        sent_ns: Int64s = column[column != UNKNOWN]
        return sent_ns

    def column(self, number: int) -> Int64s:
        """Return a copy of a column of all rows."""
        return self.rows.column(np.int64, lambda block: np.frombuffer(block, np.int64)[number::COLUMNS])

    def ending(self, number: int) -> tuple[int, Disposition, str]:
        """Return the place of a request in the capture, its disposition and the reason, by its number."""
        index, disposition, reason = ENDING.unpack_from(*self.rows.place(number))
        return index, DISPOSITIONS[disposition], self._text_list()[reason]

    def __getitem__(self, number: int) -> RequestResult:
        return self._result(ROW.unpack_from(*self.rows.place(number)), self._text_list())

    def __len__(self) -> int:
        return len(self.rows)

    def _text_list(self) -> list[str]:
        if len(self._listed) < len(self.texts):
            self._listed = list(self.texts)
        return self._listed

    def __iter__(self) -> Iterator[RequestResult]:
        texts = self._text_list()
        for block in self.rows.blocks():
            for row in ROW.iter_unpack(block):
                yield self._result(row, texts)

    def _result(self, row: tuple[int, ...], texts: list[str]) -> RequestResult:
        index, disposition, reason, due, sent, received, cause, node, version, *counts = row
        parts, sent_bytes, throttle_ms, again, answer_version, position, size, spool = counts
        answers: tuple[tuple[int, SpoolSlot], ...] = ()
        if answer_version != UNKNOWN:
            answers = ((answer_version, SpoolSlot(position, size)), *self.more.get(index, ()))
        return RequestResult(
            index,
            DISPOSITIONS[disposition],
            texts[reason],
            _value(due),
            _value(sent),
            _value(received),
            texts[cause],
            node,
            _value(version),
            parts,
            sent_bytes,
            throttle_ms,
            again,
            answers,
            spool,
        )


def _number(value: int | None) -> int:
    return UNKNOWN if value is None else value


def _value(number: int) -> int | None:
    return None if number == UNKNOWN else number


def result_of(index: int, answers: Sequence[Answer], put: Callable[[bytes], SpoolSlot]) -> RequestResult:
    """Return the result of a request from the answers to its parts; `put` keeps a frame in the spool."""
    if len(answers) == 1:
        (answer,) = answers
        disposition = answer.bucket
        sent_ns = answer.sent_ns
        received_ns = answer.received_ns if disposition is Disposition.ANSWERED else None
    else:
        disposition = disposition_of(answers)
        sent_ns = min((answer.sent_ns for answer in answers if answer.sent_ns is not None), default=None)
        received = [answer.received_ns for answer in answers if answer.received_ns is not None]
        received_ns = max(received) if received and disposition is Disposition.ANSWERED else None
    result = RequestResult(index, disposition, "", None, sent_ns, received_ns, parts=len(answers))
    if answers:
        result.node, result.version = answers[0].node, answers[0].part.version
    for answer in answers:
        result.sent_bytes += answer.sent_bytes
        result.again += answer.part.again
        if answer.frame is not None:
            result.answers += ((answer.part.version, put(answer.frame)),)
            result.throttle_ms = max(result.throttle_ms, answer.throttle_ms)
    return result


def is_new_error(answers: Sequence[Answer], result: RequestResult, error_captured: bool) -> bool:
    """Return whether a request that was sent has an error that the captured one did not have."""
    if result.bucket is not Disposition.ANSWERED:
        return result.bucket is not Disposition.NO_ANSWER_DUE
    return any(answer.errors for answer in answers) and not error_captured


def disposition_of(answers: Sequence[Answer]) -> Disposition:
    """Return how a request has ended whose parts ended like this: as the worst of them."""
    found = {answer.bucket for answer in answers}
    return next(
        (disposition for disposition in WORST_FIRST if disposition in found), Disposition.FAILED_TO_SEND
    )


@dataclass(slots=True)
class PassOutcome:
    """One pass, or the part of it that one process played."""

    results: ResultTable = field(default_factory=ResultTable)
    notes: MutableMapping[int, Texts] = field(default_factory=RequestValues)  # how requests were rewritten
    produced: MutableMapping[int, Batches] = field(default_factory=RequestValues)  # as sent
    counts: Counter[str] = field(default_factory=Counter)
    rules: dict[TopicPartition, Counter[Rule]] = field(
        default_factory=dict
    )  # by which offsets were translated
    clamped: int = 0  # offsets that were moved into the log
    commits: list[dict[str, Any]] = field(default_factory=list)  # the last ones of each group
    open_transactions: list[str] = field(default_factory=list)
    topic_names: dict[bytes, str] = field(default_factory=dict)  # of the target, by their ids
    counters: PoolCounters = field(default_factory=PoolCounters)
    stopped: str = ""  # why it was ended early
    peak_in_flight: int = 0  # of several processes the sum of their peaks
    peak_connections: int = 0


def merge_outcomes(outcomes: Sequence[PassOutcome]) -> PassOutcome:
    """Return what several processes leave behind together."""
    merged = PassOutcome()
    for number, outcome in enumerate(outcomes):
        merged.results.extend(outcome.results, number)
        add_values(merged.notes, outcome.notes)
        add_values(merged.produced, outcome.produced)
        merged.counts += outcome.counts
        for partition, rules in outcome.rules.items():
            merged.rules.setdefault(partition, Counter()).update(rules)
        merged.clamped += outcome.clamped
        merged.commits += outcome.commits
        merged.open_transactions = sorted({*merged.open_transactions, *outcome.open_transactions})
        merged.topic_names |= outcome.topic_names
        merged.counters.add(outcome.counters)
        merged.stopped = merged.stopped or outcome.stopped
        merged.peak_in_flight += outcome.peak_in_flight
        merged.peak_connections += outcome.peak_connections
    return merged
