"""How connections were protected and clients authenticated: phrases on TLS and on SASL for the header."""

from collections import Counter
from collections.abc import Iterable

from kdissect.report.model.connection_rows import ConnectionTotals
from kdissect.report.render.table import TableCell
from kdissect.report.render.terminal import RED, YELLOW, Terminal
from kdissect.text import format_count, format_share, format_size

NOT_DECRYPTED = {
    "partly": "partly decrypted",
    "failed": "with keys that do not fit",
    "no_keys": "without keys",
    "no_handshake": "begun before the capture",
    "unsupported": "with an unsupported version or cipher suite",
}
TLS_FAILURES = {
    "failed": "failed",
    "unanswered": "without a response to the handshake",
    "unfinished": "with an incomplete handshake",
}
SASL_FAILURES = {"failed": RED, "unfinished": YELLOW}


def tls(connections: ConnectionTotals, terminal: Terminal) -> list[TableCell]:
    """Return how much is under TLS, of which versions, what was decrypted and what failed."""
    rows = connections.tls
    if not rows:
        return []
    all_bytes = sum(row.bytes for row in connections.protocols)
    tls_bytes = sum(row.bytes for row in rows)
    share = f", {format_share(tls_bytes / all_bytes)} of all bytes" if all_bytes else ""
    count = format_count(sum(row.connections for row in rows))
    amount = f"{format_size(tls_bytes)}{share}"
    cells = [TableCell(f"{count} of {format_count(connections.count)} connections ({amount})")]
    versions = _ranked((row.version or "of unknown version", row.connections) for row in rows)
    cells += [TableCell(f"{format_count(number)} {name}") for name, number in versions.items()]
    decryption = _ranked((row.decryption, row.connections) for row in rows)
    if "whole" in decryption:
        cells.append(TableCell(f"{format_count(decryption['whole'])} decrypted"))
    cells += [
        TableCell(f"{format_count(decryption[name])} {words}", YELLOW)
        for name, words in NOT_DECRYPTED.items()
        if name in decryption
    ]
    outcomes = _ranked((row.outcome, row.connections) for row in rows)
    for outcome, words in TLS_FAILURES.items():
        if outcome in outcomes:
            text = f"{format_count(outcomes[outcome])} {words}{_alerts(connections, outcome)}"
            cells.append(TableCell(terminal.escape(text), RED))
    return cells


def _alerts(connections: ConnectionTotals, outcome: str) -> str:
    alerts = _ranked(
        (f"{row.alert} by {row.alert_by or '?'}", row.connections)
        for row in connections.tls
        if row.outcome == outcome and row.alert
    )
    return f": {', '.join(alerts)}" if alerts else ""


def sasl(connections: ConnectionTotals, terminal: Terminal) -> list[TableCell]:
    """Return by which mechanisms clients authenticated, how many did so again, and what failed."""
    rows = connections.sasl
    mechanisms = _ranked((row.mechanism or "of unknown mechanism", row.connections) for row in rows)
    cells = [
        TableCell(f"{format_count(count)} {terminal.escape(name)}") for name, count in mechanisms.items()
    ]
    again = sum(row.reauthentications for row in rows)
    cells += [TableCell(f"{format_count(again)} reauthenticated")] if again else []
    outcomes = _ranked((row.outcome, row.connections) for row in rows)
    for outcome, style in SASL_FAILURES.items():
        if outcome in outcomes:
            cells.append(TableCell(f"{format_count(outcomes[outcome])} {outcome}", style))
    return cells


def _ranked(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the sums by name, highest first."""
    counts: Counter[str] = Counter()
    for name, count in pairs:
        counts[name] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
