"""The functions that make signals, one for each kind of subject, and all signals of a capture.

To add signals: write a module with a function from the context to signals, list its kinds, and add both here.
"""

from collections.abc import Callable, Iterable, Iterator

from kdissect.report.model.incidents import Signal
from kdissect.report.signals.address_signals import ADDRESS_KINDS, address_signals
from kdissect.report.signals.capture_gaps import without_gaps
from kdissect.report.signals.change_signals import CHANGE_KINDS, change_signals
from kdissect.report.signals.connection_storms import CONNECTION_KINDS, connection_storms
from kdissect.report.signals.cut_signals import CUT_KINDS, cut_signals
from kdissect.report.signals.deserted_signals import DESERTED_KINDS, deserted_signals
from kdissect.report.signals.error_signals import ERROR_KINDS, error_signals
from kdissect.report.signals.fetch_signals import FETCH_KINDS, fetch_signals
from kdissect.report.signals.finding_signals import FINDING_KINDS, finding_signals
from kdissect.report.signals.follower_pace import FOLLOWER_KINDS, follower_signals
from kdissect.report.signals.group_signals import GROUP_KINDS, group_signals
from kdissect.report.signals.identity_signals import IDENTITY_KINDS, identity_signals
from kdissect.report.signals.kinds import SignalKind
from kdissect.report.signals.lag_signals import LAG_KINDS, lag_signals
from kdissect.report.signals.load_signals import LOAD_KINDS, load_signals
from kdissect.report.signals.login_signals import LOGIN_KINDS, login_signals
from kdissect.report.signals.network_signals import PATH_KINDS, path_signals
from kdissect.report.signals.offset_losses import OFFSET_LOSS_KINDS, offset_loss_signals
from kdissect.report.signals.patience_signals import PATIENCE_KINDS, patience_signals
from kdissect.report.signals.policy_signals import POLICY_KINDS, policy_signals
from kdissect.report.signals.position_signals import POSITION_KINDS, position_signals
from kdissect.report.signals.query_storms import QUERY_KINDS, query_signals
from kdissect.report.signals.rate_signals import RATE_KINDS, rate_signals
from kdissect.report.signals.rebalance_signals import REBALANCE_KINDS, rebalance_signals
from kdissect.report.signals.refusal_signals import REFUSAL_KINDS, refusal_signals
from kdissect.report.signals.replica_signals import REPLICA_KINDS, replica_signals
from kdissect.report.signals.reread_signals import REREAD_KINDS, reread_signals
from kdissect.report.signals.reset_signals import RESET_KINDS, reset_signals
from kdissect.report.signals.response_cuts import RESPONSE_KINDS, response_signals
from kdissect.report.signals.server_signals import SERVER_KINDS, server_signals
from kdissect.report.signals.session_signals import SESSION_KINDS, session_signals
from kdissect.report.signals.share_signals import SHARE_KINDS, share_signals
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.signals.software_signals import SOFTWARE_KINDS, software_signals
from kdissect.report.signals.tls_signals import TLS_KINDS, tls_signals
from kdissect.report.signals.topic_latency import TOPIC_LATENCY_KINDS, topic_latency_signals
from kdissect.report.signals.transaction_signals import TRANSACTION_KINDS, transaction_signals
from kdissect.report.signals.transport_signals import TRANSPORT_KINDS, transport_signals
from kdissect.report.signals.unseen_segments import unseen_segments
from kdissect.report.signals.unserved_signals import UNSERVED_KINDS, unserved_signals
from kdissect.report.signals.wait_signals import WAIT_KINDS, wait_signals

Source = Callable[[SignalContext], Iterable[Signal]]

SOURCES: tuple[Source, ...] = (
    path_signals,
    transport_signals,
    address_signals,
    tls_signals,
    unseen_segments,
    wait_signals,
    policy_signals,
    patience_signals,
    reset_signals,
    unserved_signals,
    server_signals,
    change_signals,
    topic_latency_signals,
    rate_signals,
    follower_signals,
    replica_signals,
    deserted_signals,
    error_signals,
    refusal_signals,
    identity_signals,
    login_signals,
    session_signals,
    group_signals,
    rebalance_signals,
    cut_signals,
    transaction_signals,
    load_signals,
    connection_storms,
    query_signals,
    position_signals,
    reread_signals,
    offset_loss_signals,
    software_signals,
    lag_signals,
    fetch_signals,
    response_signals,
    share_signals,
    finding_signals,
)

ALL_KINDS = (
    *PATH_KINDS,
    *TRANSPORT_KINDS,
    *ADDRESS_KINDS,
    *TLS_KINDS,
    *WAIT_KINDS,
    *POLICY_KINDS,
    *PATIENCE_KINDS,
    *RESET_KINDS,
    *UNSERVED_KINDS,
    *SERVER_KINDS,
    *CHANGE_KINDS,
    *TOPIC_LATENCY_KINDS,
    *RATE_KINDS,
    *FOLLOWER_KINDS,
    *REPLICA_KINDS,
    *DESERTED_KINDS,
    *ERROR_KINDS,
    *REFUSAL_KINDS,
    *IDENTITY_KINDS,
    *LOGIN_KINDS,
    *SESSION_KINDS,
    *GROUP_KINDS,
    *REBALANCE_KINDS,
    *CUT_KINDS,
    *TRANSACTION_KINDS,
    *LOAD_KINDS,
    *CONNECTION_KINDS,
    *QUERY_KINDS,
    *POSITION_KINDS,
    *REREAD_KINDS,
    *OFFSET_LOSS_KINDS,
    *SOFTWARE_KINDS,
    *LAG_KINDS,
    *FETCH_KINDS,
    *RESPONSE_KINDS,
    *SHARE_KINDS,
    *FINDING_KINDS,
)
KINDS: dict[str, SignalKind] = {kind.name: kind for kind in ALL_KINDS}

MAX_SIGNALS = 5_000


def find_signals(context: SignalContext) -> tuple[Signal, ...]:
    """Return all signals in the order of time; of very many, those with the most requests and waits."""
    found = list(without_gaps(_all(context), context.capture.gaps, context.end_ns))
    found.sort(key=lambda signal: (-signal.wait_ns, -signal.requests, signal.begin_ns, repr(signal)))
    return tuple(sorted(found[:MAX_SIGNALS], key=lambda signal: (signal.begin_ns, signal.kind, repr(signal))))


def _all(context: SignalContext) -> Iterator[Signal]:
    for source in SOURCES:
        yield from source(context)
