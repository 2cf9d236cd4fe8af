"""Record scenarios: `python -m tests.lab.incidents.record --place hosts --seeds 1,2 --out FOLDER [NAME …]`.

One cluster serves all of them. Each leaves NAME-SEED.pcapng and NAME-SEED.json in FOLDER, the capture
first. A scenario that fails is told and left out. Scenarios of which the place does not matter are
recorded on hosts with one seed and on loopback with the other. Needs root, iproute2, ethtool, tcpdump,
editcap, Java, Go and Node."""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Mapping
from pathlib import Path

from tests.lab.incidents import work as works
from tests.lab.incidents.brokers import Brokers
from tests.lab.incidents.network import Hosts, Loopback, Network
from tests.lab.incidents.scene import SCENARIOS, Scenario, Scene, chosen
from tests.lab.maven import need

MODULES = (
    "servers",
    "paths",
    "path_variants",
    "operations",
    "habits",
    "surroundings",
    "limits",
    "mishaps",
    "blunders",
    "lapses",
    "strains",
    "vantage",
    "encounters",
    "groups",
    "requests",
    "variants",
    "healthy",
    "healthy_variants",
    "healthy_operations",
    "odd_places",
)


def place_of(scenario: Scenario, seed: int) -> str:
    """Return where that recording is made: "hosts" or "loopback"."""
    return scenario.place or ("hosts" if (zlib.crc32(scenario.name.encode()) + seed) % 2 else "loopback")


def load() -> None:
    """Fill the table of scenarios."""
    for module in MODULES:
        importlib.import_module(f"tests.lab.incidents.{module}")


class Session:
    """One cluster and the recordings that are made with it."""

    def __init__(self, network: Network, out: Path, scratch: Path) -> None:
        self.network, self.out, self.scratch = network, out, scratch
        self.taken: set[str] = set()
        self._settings: Mapping[str, str] | None = None
        self._brokers: Brokers | None = None

    def brokers(self, settings: Mapping[str, str]) -> Brokers:
        """Return a cluster with these settings; it is started anew where the one that runs has others."""
        if self._brokers is None or settings != self._settings:
            self.close()
            self._brokers = Brokers(self.network, self.scratch / "cluster", settings)
            self._brokers.__enter__()
            self._settings, self.taken = settings, set()
        return self._brokers

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.__exit__(None, None, None)
            self._brokers = None

    def record(self, scenario: Scenario, seed: int) -> None:
        """Make one recording; raise what went wrong, after mending the cluster."""
        brokers = self.brokers(dict(scenario.settings))
        brokers.revive()
        folder = self.scratch / f"{scenario.name}-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        scene = Scene(
            scenario.name,
            seed,
            self.network,
            brokers,
            folder,
            folder / "capture.pcapng",
            self.taken,
            scenario.twin_of,
            scenario.healthy,
        )
        try:
            scenario.function(scene)
        finally:
            scene.cut()
            for _, child in scene.clients:
                child.kill()
            scene.after.close()
            brokers.revive()
            brokers.delete_topics(scene.topics)
        scene.write()
        self._publish(scene)

    def _publish(self, scene: Scene) -> None:
        raw = scene.capture.with_suffix(".recording")
        begin, stop = (f"{scene.truth[key] / 1e9:.6f}" for key in ("begin_ns", "stop_ns"))
        trimmed = (*(("-A", begin) if scene.late_s else ()), *(("-B", stop) if scene.early_s else ()))
        subprocess.run(["editcap", "-F", "pcapng", *trimmed, str(raw), str(scene.capture)], check=True)
        for source in (scene.capture, scene.capture.with_suffix(".json")):
            name = f"{scene.name}-{scene.seed}{source.suffix}"
            shutil.copy(source, self.out / f".{name}")
            (self.out / f".{name}").rename(self.out / name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which scenarios; all if none is named")
    parser.add_argument("--place", choices=("hosts", "loopback"), default="hosts")
    parser.add_argument(
        "--anywhere", action="store_true", help="record here what belongs to the other place, too"
    )
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--again", action="store_true", help="record what the folder has already, too")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, help="keep brokers' and clients' logs in this folder")
    wanted = parser.parse_args()
    need("ip", "nsenter", "ethtool", "tcpdump", "editcap", "java")
    load()
    if unknown := set(wanted.names) - set(SCENARIOS):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    wanted.out.mkdir(parents=True, exist_ok=True)
    works.build()  # now: the hosts have no way to any registry
    scratch = wanted.scratch or Path(tempfile.mkdtemp(prefix="kdissect-incidents-"))
    failed = 0
    with Hosts() if wanted.place == "hosts" else Loopback() as network:
        session = Session(network, wanted.out, scratch)
        try:
            for seed in map(int, wanted.seeds.split(",")):
                # Those that need brokers of their own come last.
                for scenario in sorted(chosen(wanted.names), key=lambda one: bool(one.settings)):
                    failed += not _record(session, scenario, seed, wanted)
        finally:
            session.close()
    if wanted.scratch is None:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if failed else 0


def _record(session: Session, scenario: Scenario, seed: int, wanted: argparse.Namespace) -> bool:
    """Make one recording if it belongs here; return whether nothing failed."""
    file = wanted.out / f"{scenario.name}-{seed}.json"
    here = place_of(scenario, seed) == wanted.place or (wanted.anywhere and not scenario.place)
    if not here or (file.exists() and not wanted.again):
        return True
    begin = time.monotonic()
    try:
        session.record(scenario, seed)
    except Exception:  # noqa: BLE001 - the other recordings are made all the same
        print(f"{scenario.name}-{seed} FAILED\n{traceback.format_exc()}", flush=True)
        return False
    size = file.with_suffix(".pcapng").stat().st_size
    print(f"{scenario.name}-{seed}: {size:,} bytes in {time.monotonic() - begin:.0f} s", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
