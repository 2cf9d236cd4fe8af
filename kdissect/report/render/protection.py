"""What protected the connections and who could prove who they are: a line on TLS and one on SASL, where there is either."""

from collections import Counter
from collections.abc import Iterable

from kdissect.report.model.summary import ConnectionTotals
from kdissect.report.render.table import (
    RED,
    YELLOW,
    TableCell,
    Terminal,
)
from kdissect.text import (
    format_count,
    format_share,
    format_size,
)

HIDDEN = {
    "partly": "partly decrypted",
    "failed": "that the keys at hand do not open",
    "no_keys": "without keys",
    "no_handshake": "begun before the capture",
    "unsupported": "of a kind that cannot be decrypted",
}
FAILURES = {
    "failed": "failed",
    "unanswered": "without an answer to the handshake",
    "unfinished": "with half a handshake",
}


def tls(seen: ConnectionTotals, terminal: Terminal) -> list[TableCell]:
    """Say how much is under TLS, of which versions, what was decrypted and what failed."""
    if not seen.tls:
        return []
    everything = sum(row.bytes for row in seen.protocols)
    under_tls = sum(row.bytes for row in seen.tls)
    connections = sum(row.connections for row in seen.tls)
    part = f", {format_share(under_tls / everything)} of all bytes" if everything else ""
    cells = [
        TableCell(
            f"{format_count(connections)} of {format_count(seen.count)} connections ({format_size(under_tls)}{part})"
        )
    ]
    versions = _counted((row.version or "of unknown version", row.connections) for row in seen.tls)
    cells += [TableCell(f"{format_count(count)} {name}") for name, count in versions]
    ways = dict(_counted((row.decryption, row.connections) for row in seen.tls))
    cells += [TableCell(f"{format_count(ways['whole'])} decrypted")] if "whole" in ways else []
    cells += [
        TableCell(f"{format_count(ways[way])} {words}", YELLOW)
        for way, words in HIDDEN.items()
        if way in ways
    ]
    outcomes = dict(_counted((row.outcome, row.connections) for row in seen.tls))
    for outcome, words in FAILURES.items():
        if outcome in outcomes:
            alerts = _counted(
                (f"{row.alert} by {row.alert_by or '?'}", row.connections)
                for row in seen.tls
                if row.outcome == outcome and row.alert
            )
            reasons = f": {', '.join(name for name, _ in alerts)}" if alerts else ""
            cells.append(
                TableCell(terminal.captured(f"{format_count(outcomes[outcome])} {words}{reasons}"), RED)
            )
    return cells


def sasl(seen: ConnectionTotals, terminal: Terminal) -> list[TableCell]:
    """Say by which mechanisms clients authenticated, how often again, and what failed."""
    mechanisms = _counted((row.mechanism or "of unknown mechanism", row.connections) for row in seen.sasl)
    cells = [TableCell(f"{format_count(count)} {terminal.captured(name)}") for name, count in mechanisms]
    again = sum(row.reauthentications for row in seen.sasl)
    cells += [TableCell(f"{format_count(again)} authenticated again")] if again else []
    outcomes = dict(_counted((row.outcome, row.connections) for row in seen.sasl))
    for outcome, style in (("failed", RED), ("unfinished", YELLOW)):
        cells += (
            [TableCell(f"{format_count(outcomes[outcome])} {outcome}", style)] if outcome in outcomes else []
        )
    return cells


def _counted(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for name, count in pairs:
        counts[name] += count
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
