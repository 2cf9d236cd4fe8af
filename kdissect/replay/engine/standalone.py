"""A coroutine driven alone, on connections of its own: what is asked before a run and between passes."""

from typing import cast

from kdissect.replay.disposition import SkipRequest
from kdissect.replay.effects import CONTROL, Coroutine, T
from kdissect.replay.engine.dry_target import transport_for
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.net.transport import NoTimedWork, drive, nonce
from kdissect.replay.safety import AbortRun
from kdissect.replay.settings import ReplaySettings
from kdissect.replay.target.cluster import TargetCluster


def run_standalone(settings: ReplaySettings, cluster: TargetCluster, coroutine: Coroutine[T]) -> T:
    """Run a coroutine to its end, and return its result.

    Raise AbortRun or HandshakeFailed if the target cannot be asked, or the request cannot be sent.
    """
    transport = transport_for(settings)
    pool = ConnectionPool(settings, cluster, transport, nonce)
    ends: list[tuple[T | None, Exception | None]] = []
    for address in settings.target:
        cluster.admission.admit(address)
    drive(
        pool,
        transport,
        NoTimedWork(),
        lambda: pool.run(coroutine, CONTROL, lambda value, failure: ends.append((value, failure))),
        lambda: bool(ends) or pool.failure is not None,
    )
    if pool.failure is not None:
        raise pool.failure
    value, failure = ends[0]
    if isinstance(failure, SkipRequest):
        raise AbortRun(str(failure))
    if failure is not None:
        raise failure
    return cast("T", value)  # there is one, since nothing failed
