"""Text for people: what captures hold made safe for a terminal.

Figures, times, sizes and addresses written and read.

Nothing that came from a capture may move the cursor, change colours or reorder a line. Control characters
(C0, C1), bidirectional overrides and other format characters, line and paragraph separators, combining marks
without a letter, private and unassigned code points are written as escapes. The rest is measured in
terminal columns, of which East Asian wide characters take two (Unicode Standard Annex 11).

Figures have three significant digits and a unit. Sizes are in powers of 1024 (IEC 80000-13), times of day are
in UTC. Importing this module loads nothing that takes time.
"""

import difflib
import re
import unicodedata
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from socket import AF_INET, AF_INET6, inet_ntop

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me", "Mc"})
"""Unicode general categories that are never sent to a terminal."""

OBEYED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories that may move the cursor or turn the line round.

Marks are missing: they belong to the letter before them.
"""

NANOSECOND_UNITS = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))
BYTE_UNITS = tuple(
    (1 << 10 * power, unit) for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB"), (0, "B"))
)
COUNT_UNITS = ((10**12, "T"), (10**9, "G"), (10**6, "M"))
SIZE_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_NS = 86_400 * 10**9
IPV4_PREFIX = bytes(10) + b"\xff\xff"  # RFC 4291, section 2.5.5.2: an IPv4 address in IPv6 form
UUID_CHARACTERS = 22  # 16 bytes in base64url without padding
FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")
"""Characters with which a formula of a spreadsheet begins; East Asian versions take full-width ones too."""

LINE_PARTS = re.compile(r"([\t\n\r]+)")
URI_PASSWORD = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://[^/@:\s]*:)[^/@\s]+@")
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names and addresses that mean the machine itself, on whatever machine they are read."""


def without_password(text: str) -> str:
    """Return text in which URIs have no password (RFC 3986, section 3.2.1).

    >>> without_password("s3://key:secret@bucket/a.pcap: access denied")
    's3://key:***@bucket/a.pcap: access denied'
    """
    return URI_PASSWORD.sub(r"\1***@", text) if "://" in text else text


def readable(name: str) -> str:
    r"""Return the name of a file as text that can be written: bytes that are not UTF-8 become escapes.

    >>> print(readable("caf\udce9.pcap"))
    caf\xe9.pcap
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def escape(text: str, *, ascii_only: bool = False) -> str:
    r"""Return text with everything unprintable as \x1b or \u202e.

    With `ascii_only` also everything beyond ASCII.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(_shown(character, ascii_only) for character in unicodedata.normalize("NFC", text))


def _shown(character: str, ascii_only: bool) -> str:
    code = ord(character)
    if character == "\\":
        return "\\\\"
    if 0x20 <= code < 0x7F:
        return character
    if ascii_only or unicodedata.category(character) in HIDDEN or (character.isspace()):
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character


def escape_control(text: str) -> str:
    r"""Return text in which only what a terminal obeys is written as \x1b or \u202e.

    For sentences, whose words are ours.

    >>> escape_control("no such file: a\x9b31m")
    'no such file: a\\x9b31m'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(one, False) if unicodedata.category(one) in OBEYED else one for one in text)


def display_width(text: str) -> int:
    """Return the width of escaped text in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def truncate(text: str, width: int, ellipsis: str) -> str:
    """Return text in at most `width` columns.

    Longer text keeps both ends, since names often differ in the last part.
    """
    if display_width(text) <= width:
        return text
    room = max(width - display_width(ellipsis), 0)
    tail = _first(text[::-1], room // 3)[::-1]
    return (_first(text, room - display_width(tail)) + ellipsis + tail) if room else _first(ellipsis, width)


def _first(text: str, width: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += display_width(character)
        if used > width:
            return text[:index]
    return text


def fold(text: str, width: int) -> list[str]:
    """Return escaped text in lines of at most `width` columns, broken at blanks.

    A word that is longer than a line is broken wherever a line ends; names keep their hyphens together.
    """
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if display_width(joined) <= width:
            lines[-1] = joined
            continue
        if display_width(word) <= width:
            lines.append(word)
            continue
        while len(part := _first(joined, width) or joined[:1]) < len(joined):
            lines[-1] = part
            lines.append("")
            joined = joined[len(part) :].lstrip(" ")
        lines[-1] = joined
    return [line.rstrip(" ") for line in lines if line] or [""]


def format_duration(ns: int | None) -> str:
    """Return a duration as 41.2µs, 1.23ms, 12.3s, 4m07s, 3h05m or 3d04h; a dash for None."""
    if ns is None:
        return "-"
    seconds = ns / 10**9
    if round(seconds / 3600) >= 48:
        hours = round(seconds / 3600)
        return f"{hours // 24}d{hours % 24:02d}h"
    if round(seconds) >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60}h{minutes % 60:02d}m"
    if round(seconds) >= 120:
        return f"{round(seconds) // 60}m{round(seconds) % 60:02d}s"
    for factor, unit in NANOSECOND_UNITS:
        if ns >= factor * 0.9995 or factor == 1:
            return f"{ns}ns" if factor == 1 else _three_digits(ns / factor) + unit
    return "0ns"


def format_size(count: int) -> str:
    """Return a number of bytes as 812 B, 1.23 KiB or 12.3 MiB."""
    for factor, unit in BYTE_UNITS:
        if count >= factor * 0.9995 and factor > 1:
            return f"{_three_digits(count / factor)} {unit}"
    return f"{count} B"


def parse_size(text: str) -> int:
    """Return the bytes of a size such as 33554432, 32m or 1G, at least one.

    Raise ValueError for anything else.

    >>> parse_size("32m"), parse_size("1Gb")
    (33554432, 1073741824)
    """
    parts = re.fullmatch(r"([1-9]\d{0,12})([kmg]?)b?", text.lower())
    if parts is None:
        raise ValueError(f"{text!r} is not a size; 33554432 and 32m are")
    return int(parts[1]) * SIZE_SUFFIXES[parts[2]]


def format_count(count: int) -> str:
    """Return a count as 182,044, and from ten million on as 12.3M."""
    if abs(count) < 10**7:
        return f"{count:,}"
    for factor, unit in COUNT_UNITS:
        if abs(count) >= factor * 0.9995:
            return _three_digits(count / factor) + unit
    return f"{count:,}"


def plural(noun: str, count: int) -> str:
    """Return a noun as it stands behind a count: client behind 1, clients behind all others."""
    return noun if count == 1 else f"{noun}s"


def format_share(part: float) -> str:
    """Return a part of 1 as 12.3%, 0.4%, <0.1% or 100%."""
    if 0 < part < 0.0005:
        return "<0.1%"
    return "100%" if part >= 0.9995 else f"{part * 100:.1f}%" if part else "0%"


_DATED = ContextVar("dated", default=False)
"""True if `format_clock` writes the date: sentences about one capture are made in many places."""


def spans_midnight(first_ns: int | None, last_ns: int | None) -> bool:
    """Return whether two times are known and of different days in UTC."""
    return first_ns is not None and last_ns is not None and first_ns // DAY_NS != last_ns // DAY_NS


@contextmanager
def dated_clocks(dated: bool) -> Iterator[None]:
    """Make `format_clock` write the date within the block if `dated`."""
    before = _DATED.set(dated)
    try:
        yield
    finally:
        _DATED.reset(before)


def format_clock(time_ns: int | None, *, date: bool = False) -> str:
    """Return the time of day in UTC with milliseconds, rounded down.

    With `date`, or within `dated_clocks`, the date before it; a dash for None.
    """
    if time_ns is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(time_ns // 10**9, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ns}ns"
    return (
        moment.strftime("%Y-%m-%d %H:%M:%S" if date or _DATED.get() else "%H:%M:%S")
        + f".{time_ns // 10**6 % 1000:03d}"
    )


def format_timestamp(time_ns: int, *, digits: int = 9) -> str:
    """Return a time in UTC as 2026-05-01T12:00:00.123456789Z (RFC 3339), cut to `digits` digits.

    >>> format_timestamp(1_000_000_001, digits=3)
    '1970-01-01T00:00:01.000Z'
    """
    seconds, fraction_ns = divmod(time_ns, 10**9)
    return f"{EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{f'{fraction_ns:09d}'[:digits]}Z"


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def format_ip(address: bytes) -> str:
    """Return a 16-byte IP address as people write it; an IPv4 address in IPv6 form as IPv4."""
    if address.startswith(IPV4_PREFIX):
        return inet_ntop(AF_INET, address[len(IPV4_PREFIX) :])
    return inet_ntop(AF_INET6, address)


def format_address(host: str | None, port: int | None) -> str:
    """Return host and port as 10.1.0.3:9092 or [::1]:9092.

    A part that is None is left out, and a dash stands for neither.
    """
    shown = f"[{host}]" if host and ":" in host else host
    return ":".join(str(part) for part in (shown, port) if part is not None) or "-"


def parse_address(text: str) -> tuple[str, int | None]:
    """Return host and port of 10.1.0.3:9092, [::1]:9092 or broker-1; the port is None if there is none.

    Raise ValueError if what stands behind the last colon is not a port.
    """
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not an address: [::1]:9092 is one")
        port = rest[1:]
    elif text.count(":") > 1:  # an IPv6 address without brackets has no port
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not port:
        return host, None
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ValueError(f"{port!r} is not a port: 1 to 65535 are")
    return host, int(port)


def format_uuid(raw: bytes) -> str:
    """Return the 16 bytes of an id as Kafka prints them.

    22 characters of base64url (org.apache.kafka.common.Uuid).
    """
    return urlsafe_b64encode(raw)[:UUID_CHARACTERS].decode()


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of an id that Kafka printed. Raise ValueError for text that is not such an id.

    >>> parse_uuid(format_uuid(bytes(range(16)))) == bytes(range(16))
    True
    """
    try:
        raw = urlsafe_b64decode(f"{text}==")
    except ValueError:
        raw = b""
    if len(raw) != 16 or format_uuid(raw) != text:
        raise ValueError(f"{text!r} is not an id; it has {UUID_CHARACTERS} characters of base64url")
    return raw


def escape_cell(text: str) -> str:
    r"""Return text for a cell of a CSV file that no spreadsheet takes for a formula and no terminal obeys.

    A formula gets an apostrophe in front, which a spreadsheet takes for "this is text" and does not show.
    Control and format characters are written as escapes, apart from tabs and ends of lines.

    >>> escape_cell("=1+1"), escape_cell("a\x1bb\n")
    ("'=1+1", 'a\\x1bb\n')
    """
    parts = (part if LINE_PARTS.match(part) else escape_control(part) for part in LINE_PARTS.split(text))
    shown = "".join(parts)
    return f"'{shown}" if text.startswith(FORMULA_STARTS) else shown


NEAR = 0.6
"""The similarity (0 to 1) from which on a name is suggested; transposed and missing letters stay above it."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'NAME'?` for the known name that is nearest to a word; empty if none is near.

    Case, and `-` instead of `_`, do not count.
    """
    names = {_plain_name(name): name for name in known}
    near = difflib.get_close_matches(_plain_name(word), names, n=1, cutoff=NEAR)
    if not near:
        near = [name for name in names if name.startswith(_plain_name(word))][:1] if len(word) > 2 else []
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def _plain_name(name: str) -> str:
    return name.lower().replace("-", "_")
