"""Short texts that several sections share: counts with their noun, lists that end, names of clients."""

from collections.abc import Collection, Sequence

from kdissect.text import format_count, format_duration, plural

NO_CLIENT_ID = "(no client id)"

TO_THE_END = "to the end of the capture"
UNTIL_THE_END = "until the end of the capture"
AT_THE_END = "when the capture ended"
"""Times of what goes on when the capture ends; `with_end` finds them again."""


def counted(count: int, noun: str) -> str:
    """Return 1 client, 2 clients, 12.3M clients."""
    return f"{format_count(count)} {plural(noun, count)}"


def capitalized(text: str) -> str:
    """Return a text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names separated by commas, and the number of others: a, b and 3 more."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def joined(names: Sequence[str], most: int) -> str:
    """Return the subjects of a sentence: a and b, or a, b and 3 more."""
    if len(names) > most:
        return listed(names, most)
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def client_id_text(client_id: str | None) -> str:
    """Return a client id, or that there is none; an empty client id counts as none."""
    return client_id or NO_CLIENT_ID


def client_text(client_id: str | None, host: str | None) -> str:
    """Return a client id and its host, which tell clients apart: orders-app at 10.1.0.1."""
    return f"{client_id_text(client_id)} at {host or '?'}"


def known_as(client: str) -> str:
    """Return the text of a client, or its host alone if it has no client id: host 10.1.0.1."""
    return client.replace(f"{NO_CLIENT_ID} at ", "host ", 1) if client.startswith(NO_CLIENT_ID) else client


def under_way(requests: int) -> str:
    """Return how many requests were under way, to stand behind what ended; empty for none."""
    return f" with {counted(requests, 'request')} under way" if requests else ""


def lasting(begin_ns: int, end_ns: int | None) -> str:
    """Return how long something lasts, behind a verb: for 3.00s, or to the end of the capture."""
    return TO_THE_END if end_ns is None else f"for {format_duration(end_ns - begin_ns)}"


def for_so_long(lasted_ns: int, is_over: bool) -> str:
    """Return how long something lasted, behind a verb: for 3.00s, with more words if it is not over."""
    return f"for {format_duration(lasted_ns)}{'' if is_over else f', {TO_THE_END}'}"


def with_end(text: str, clock: str) -> str:
    """Return a text about what went on when the capture ended as one about what ended at a time of day."""
    for words in (TO_THE_END, UNTIL_THE_END):
        text = text.replace(words, f"until {clock}")
    return text.replace(AT_THE_END, f"at {clock}")


def refused_attempts(attempts: int, is_over: bool) -> str:
    """Return how many attempts to connect were refused, and whether that lasted to the end."""
    until = "" if is_over else f" {UNTIL_THE_END}"
    return f"{counted(attempts, 'attempt')} to connect refused{until}"


def software_text(name: str | None, version: str | None) -> str:
    """Return the name and version of client software, as far as they are known."""
    return " ".join(part for part in (name, version) if part)


def number_ranges(numbers: Collection[int]) -> str:
    """Return whole numbers with ranges joined: 0, 3-5, 9; empty for none."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)
