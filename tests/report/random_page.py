"""Random tables with what a page is made of, and sums of the page's pivot."""

import numpy as np

from kdissect.report.build.build_report import build_report
from kdissect.report.build.page import pivot
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import summarise
from kdissect.report.timeline.grid import grid_over
from kdissect.tables.schemas import ENDS
from tests.helpers import synthetic_tables as synthetic


def random_page(seed=1, exchanges=2000):
    """Return random tables with their grid, summary and partial."""
    tables = synthetic.tables(np.random.default_rng(seed), exchanges)
    tables |= {"ends": tables["connections"].select(ENDS.names)}
    times = tables["exchanges"]["request_first_ns"].drop_null().to_numpy()
    grid = grid_over(int(times.min()), int(times.max()) + 10**9)
    partial = summarise(tables, grid)
    facts = CaptureFacts(
        files=("a.pcap", "b.pcapng"), first_time_ns=int(times.min()), last_time_ns=int(times.max())
    )
    return tables, grid, build_report(partial, facts), partial


def pivot_sums(data, client=None, broker=None):
    """Return the sums of the pivot for one client and broker, None for all."""
    sums = [0] * len(data["pivot"]["sums"])
    timed = 0
    for slot, _, _, steps in data["pivot"]["series"]:
        of_client, of_broker, _ = data["pivot"]["slots"][slot]
        if client in (None, of_client) and broker in (None, of_broker):
            for _, some, cells in steps:
                for at, value in enumerate(some):
                    sums[at] = max(sums[at], value) if at == pivot.LARGEST else sums[at] + value
                timed += sum(
                    number for cell, number in zip(cells[::3], cells[1::3], strict=True) if cell >= 0
                )
    return dict(zip(data["pivot"]["sums"], sums, strict=True)) | {"timed": timed}
