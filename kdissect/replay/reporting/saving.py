"""Makes the files of a run from what was played: one directory for one pass."""

from pathlib import Path
from typing import Any

from kdissect import __version__
from kdissect.replay.linking.switchboard import Tallies
from kdissect.replay.playing.running import Pass, Replay
from kdissect.replay.reporting.runfiles import VERSION, pair_lines, write_run


def summary_of(replay: Replay, played: Pass, plan: dict[str, Any]) -> dict[str, Any]:
    """Give what `run.json` says."""
    stage, player, board = played.stage, played.player, player_board(played)
    used = {
        f"{topic}-{partition}": {rule.value: count for rule, count in rules.items()}
        for (topic, partition), rules in sorted(stage.positions.used.items())
    }
    return {
        "format": VERSION,
        "kdissect": __version__,
        "id": replay.settings.run,
        "started_ns": played.start_wall_ns,
        "stopped": player.stopped,
        "plan": plan,
        "open_transactions": sorted(stage.open_transactions),
        "offsets": {"rules": used, "clamped": stage.positions.clamped},
        "peak_in_flight": player.peak_in_flight,
        "peak_lines": player.peak_lines,
        "connections": {
            "opened": board.opened,
            "refused": board.refused,
            "closed_by_peer": board.closed_by_peer,
        },
        "throttled": {"answers": board.throttled, "ms": board.throttle_ms},
        "synthetic": dict(sorted(board.synthetic.items())),
        "counts": dict(stage.counts.most_common()),
    }


def player_board(played: Pass) -> Tallies:
    """Give the tallies of the switchboard that a pass was played on."""
    return played.player.board.tallies


def save(replay: Replay, folder: Path, plan: dict[str, Any]) -> list[Path]:
    """Write every pass; give the directories."""
    made = []
    for number, played in enumerate(replay.passes):
        place = folder if number == 0 else folder.with_name(f"{folder.name}-{number + 1}")
        write_run(place, summary_of(replay, played, plan), pair_lines(replay, played))
        made.append(place)
    return made
