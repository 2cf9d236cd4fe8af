"""Makes the files of a run from what was played: one directory for one pass."""

from pathlib import Path
from typing import Any

from kdissect import __version__
from kdissect.replay.engine.run import PlayedPass, Replay
from kdissect.replay.results.run_files import (
    VERSION,
    pair_lines,
    write_run,
)


def summary_of(replay: Replay, played: PlayedPass, plan: dict[str, Any]) -> dict[str, Any]:
    """Give what `run.json` says."""
    outcome, tallies = played.outcome, played.outcome.tallies
    used = {
        f"{topic}-{partition}": {rule.value: count for rule, count in rules.items()}
        for (topic, partition), rules in sorted(outcome.rules.items())
    }
    return {
        "format": VERSION,
        "kdissect": __version__,
        "id": replay.settings.run,
        "started_ns": played.start_wall_ns,
        "stopped": outcome.stopped,
        "plan": plan,
        "open_transactions": outcome.open_transactions,
        "offsets": {"rules": used, "clamped": outcome.clamped},
        "peak_in_flight": outcome.peak_in_flight,
        "peak_lines": outcome.peak_lines,
        "processes": len(played.shelves),
        "connections": {
            "opened": tallies.opened,
            "refused": tallies.refused,
            "closed_by_peer": tallies.closed_by_peer,
        },
        "throttled": {"answers": tallies.throttled, "ms": tallies.throttle_ms},
        "synthetic": dict(sorted(tallies.synthetic.items())),
        "counts": dict(outcome.counts.most_common()),
    }


def save(replay: Replay, folder: Path, plan: dict[str, Any]) -> list[Path]:
    """Write every pass; give the directories."""
    return [save_pass(replay, folder, plan, number, played) for number, played in enumerate(replay.passes)]


def save_pass(replay: Replay, folder: Path, plan: dict[str, Any], number: int, played: PlayedPass) -> Path:
    """Write one pass; give its directory."""
    place = folder if number == 0 else folder.with_name(f"{folder.name}-{number + 1}")
    write_run(place, summary_of(replay, played, plan), pair_lines(replay, played))
    return place
