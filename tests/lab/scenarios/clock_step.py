"""A capture in which the clock goes back, spliced from one whose clock did not: a machine's clock is not ours
to set."""

from __future__ import annotations

import subprocess

from tests.lab import packets, releases
from tests.lab.cluster import KraftCluster
from tests.lab.maven import need
from tests.lab.stage import Stage

FILE = "clock-step.pcapng"
TOLD = (
    "One broker with a healthy producer and a healthy consumer. The times of the capture were changed "
    "afterwards, as if the clock of the capturing machine had been set back. Nothing else was changed."
)
STEP_S = 2.5


def record(stage: Stage) -> None:
    need("editcap", "mergecap")
    with KraftCluster(releases.CURRENT, 1, folder=stage.folder / "cluster") as cluster:
        stage.topics(cluster, {"orders": 1})
        with stage.recording(cluster):
            reader = stage.start(
                "librdkafka", role="consume", client_id="reader", group="readers", topics=("orders",)
            )
            stage.wait_until_reading([reader])
            writer = stage.start(
                "librdkafka",
                role="produce",
                client_id="writer",
                topics=("orders",),
                records=40,
                per_second=8,
                config={"linger.ms": "5"},
            )
            writer.finish()
            reader.leave()
    whole = packets.count(stage.capture).packets
    first = whole // 2
    parts = [stage.folder / name for name in ("before.pcapng", "after.pcapng")]
    for part, shift, wanted in zip(
        parts, (0.0, -STEP_S), (f"1-{first}", f"{first + 1}-{whole}"), strict=True
    ):
        subprocess.run(["editcap", "-r", "-t", str(shift), str(stage.capture), str(part), wanted], check=True)
    subprocess.run(["mergecap", "-a", "-I", "all", "-w", str(stage.capture), *map(str, parts)], check=True)
    stage.edited = (
        f"times from packet {first + 1} on are {STEP_S} s earlier than recorded (editcap -t, mergecap -a)"
    )
