"""How large a cluster must be: a table that is reckoned from what was measured here, and says so."""

from collections.abc import Iterator
from typing import Any

CLUSTERS = ((100, 16), (1_000, 64), (10_000, 256))  # GB, cores
MEASURED_CORES = 2  # where older figures do not say


def sizing(found: dict[str, Any]) -> Iterator[str]:
    """Yield the table; nothing without something to reckon from."""
    cores = found.get("cpus", MEASURED_CORES)
    start = found["start"]["warm_seconds"]
    rows = list(_rows(found))
    if not rows:
        return
    yield ""
    yield "## Sizing a cluster"
    yield ""
    yield "| traffic | core seconds per GB | " + " | ".join(
        f"{size:,} GB on {count} cores" for size, count in CLUSTERS
    ) + " |"  # fmt: skip
    yield "| --- | --- |" + " --- |" * len(CLUSTERS)
    for row in rows:
        each = max(row["seconds"]["kdissect"] - start, 0.01) * cores / (row["bytes"] / 1e9)
        cells = (
            f"{lasting(size * each / count)}, reading {count / each:.1f} GB/s" for size, count in CLUSTERS
        )
        yield f"| {row['capture']} | {each:.2f} | {' | '.join(cells)} |"
    yield ""
    yield (
        f"Only the second column is measured: on {cores} cores of one machine, without the start of "
        "Spark, at "
        f"{', '.join(size_of(row) for row in rows)}. The others are **extrapolated**. They assume that "
        "every core is as fast as these, "
        "and that storage delivers bytes as fast as the table says. Slower storage is the bound. Add "
        "the start of the cluster."
    )
    if peaks := [row["peak_mib"]["kdissect"] for row in found["sizes"]]:
        yield ""
        yield (
            "Memory does not grow with the capture (above). All processes together took "
            f"{max(peaks):,.0f} MiB on {cores} cores, so plan "
            f"{max(peaks) / cores:,.0f} MiB for each core (extrapolated; on a cluster the driver is a "
            "process of its own)."
        )
    for row in found["stages"]:
        if "descriptor_bytes" in row:
            share = row["descriptor_bytes"] / row["bytes"]
            yield ""
            yield (
                f"Spark shuffles descriptors: {share:.1%} of the bytes of {row['capture']} (measured), "
                f"which is {1000 * share:,.0f} GB of "
                "disk and network for 1,000 GB of such traffic (extrapolated)."
            )
    for row in found["shapes"]:
        if row["capture"] == "single":
            took = (row["seconds"]["kdissect"] - start) / (row["bytes"] / 1e9)
            yield ""
            yield (
                f"One core reads one connection. If it carries everything, it takes {took:.2f} s per "
                f"GB, measured at {size_of(row)}. "
                "More cores do not help, and other connections do not wait for it."
            )


def _rows(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the largest capture of each kind of traffic."""
    if found["sizes"]:
        yield {**max(found["sizes"], key=lambda row: int(row["bytes"])), "capture": "chatty"}
    for row in found["captures"]:
        if row["capture"] in ("mixed", "bulk"):
            yield row


def size_of(row: dict[str, Any]) -> str:
    """Write a size."""
    return f"{row['bytes'] / 1e9:.1f} GB"


def lasting(seconds: float) -> str:
    """Write how long something takes."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
