"""Examples at the end of each command's help: commands as people type them, each with what it answers."""

import argparse
from collections.abc import Mapping

TITLE = "examples:"

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "analyze": (
        ("kdissect incident.pcap", "what went wrong, and where the time goes"),
        ("kdissect analyze incident.pcap --by client --html report.html", "by client, with a page"),
        ("kdissect analyze incident.pcap --since 21:23:05 --until 21:24", "one minute of it"),
        ("kdissect analyze nightly.pcap --quiet --fail-on any=critical", "exit with 3 if it is bad"),
    ),
    "export": (
        ("kdissect export incident.pcap --table all --out tables", "all tables as Parquet"),
        ("kdissect export incident.pcap --table exchanges --format csv --times iso --out -", "CSV to a pipe"),
        (
            "kdissect export incident.pcap --table exchanges --one-file --out tables",
            "tables/exchanges.parquet",
        ),
    ),
    "sql": (
        (
            "kdissect sql 'SELECT client_id, count(*) FROM exchanges GROUP BY ALL' incident.pcap",
            "calls of each client",
        ),
        (
            "kdissect sql 'SELECT * FROM exchanges ORDER BY latency_ns DESC LIMIT 9' incident.pcap",
            "the slowest exchanges",
        ),
    ),
    "watch": (
        ("kdissect watch ring --every 5s --out tables", "a ring of captures, while it is written"),
        ("kdissect watch --interface eth0 --port 9092", "what passes right now"),
    ),
    "report": (
        ("kdissect report tables --last 1h", "the last hour of a watch that writes to tables"),
        ("kdissect report tables --last 24h --html day.html", "the last day, with a page"),
    ),
    "who": (("kdissect who orders incident.pcap", "who writes and who reads a topic"),),
    "diff": (("kdissect diff before.pcap after.pcap --by client", "what changed after a deployment"),),
    "ready": (("kdissect ready --for 4.0 incident.pcap", "which clients Kafka 4.0 breaks"),),
    "dump": (
        ("kdissect dump --brief incident.pcap --error any -B 3", "each error, and the three calls before it"),
        ("kdissect dump incident.pcap --topic orders --api produce --records", "what was written"),
        ("tcpdump -U -w - tcp port 9092 | kdissect dump --brief -", "exchanges as they come"),
    ),
    "slice": (
        ("kdissect slice incident.pcap --group billing -o billing.pcapng", "packets of a group"),
        (
            "kdissect slice incident.pcap --exchange 3525986772499601#17 --around 5s -o one.pcapng",
            "packets around one exchange",
        ),
    ),
    "replay": (
        ("kdissect replay plan incident.pcap --target test:9092", "what would be sent, and what not"),
        ("kdissect replay run incident.pcap --target test:9092 --execute --out run", "send it"),
    ),
    "replay plan": (
        ("kdissect replay plan incident.pcap --target test:9092", "what would be sent, and what not"),
    ),
    "replay run": (("kdissect replay run incident.pcap --target test:9092 --execute --out run", "send it"),),
    "replay try": (("kdissect replay try incident.pcap --target test:9092", "all in one command"),),
    "schema": (("kdissect schema Fetch --version 16", "fields of one message"),),
    "completion": (
        ("kdissect completion bash > ~/.local/share/bash-completion/completions/kdissect", "for bash"),
        ("kdissect completion fish > ~/.config/fish/completions/kdissect.fish", "for fish"),
    ),
}


class ExampleFormatter(argparse.HelpFormatter):
    """The ordinary help, but the lines of examples stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(TITLE) else super()._fill_text(text, width, indent)


def add_examples(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the examples of a command to its help."""
    parser.formatter_class = ExampleFormatter
    if command in EXAMPLES:
        parser.epilog = example_text(command)


def example_text(command: str) -> str:
    """Return the examples of a command: each line below what it answers."""
    return "\n".join([TITLE, *(f"  {line}\n      {what}" for line, what in EXAMPLES[command])])
