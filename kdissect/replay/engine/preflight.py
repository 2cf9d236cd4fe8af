"""Checks before the first byte of a capture is read: the target, the login, room for the output.

Each address of `--target` is asked for its versions, and for the brokers of its cluster if that needs no
login. Nobody knows the captured brokers yet, so nothing else is sent, and above all no login: it could reach
one of them. The login comes when the capture is loaded and `Admission` knows whom to refuse. A replay log
tells the captured brokers at once, so with it the login is tried here. A listener that accepts connections
and is silent is named within `PATIENCE_S`, also if only the target's cluster names it. A broker that refuses
connections is down, which is no reason to stop.
"""

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from kdissect.errors import OutputError, UsageError
from kdissect.files import is_full
from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Coroutine, Part, ask, ask_one
from kdissect.replay.engine.standalone import run_standalone
from kdissect.replay.load.captured_cluster import CapturedCluster
from kdissect.replay.load.log_files import is_log, open_log
from kdissect.replay.net.resolver import is_own, resolve_all
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.replay.rewrite.versions import chosen_version
from kdissect.replay.safety import AbortRun, Admission, captured_hosts
from kdissect.replay.settings import ReplaySettings
from kdissect.replay.target.cluster import TargetCluster
from kdissect.replay.target.leaders import LEAST_METADATA
from kdissect.text import format_address, format_size, parse_address

PATIENCE_S = 5.0  # for each address; starting the command takes up to 4 s more on a busy machine
USUAL_METADATA = 5  # version
LEAST_ROOM = 16 << 20  # bytes


def check_target(settings: ReplaySettings, source: CapturedCluster | None = None) -> None:
    """Ask each address of the target. Raise AbortRun or HandshakeFailed, which name the address.

    `source` has the addresses of all captured brokers, if they are known: then the login is tried, too.
    """
    patience_s = min(settings.answer_deadline_s, PATIENCE_S)
    credentials = settings.credentials if source else None
    needs_login = settings.credentials is not None and not source
    known = source or CapturedCluster()
    resolved = resolve_all(captured_hosts(known))
    admission = Admission(dataclasses.replace(settings, credentials=credentials), known, resolved, is_own)
    for address in settings.target:
        alone = dataclasses.replace(
            settings, target=(address,), answer_deadline_s=patience_s, credentials=credentials
        )
        cluster = TargetCluster(admission)
        run_standalone(alone, cluster, _ask(alone, cluster, needs_login))


def brokers_of_log(paths: Sequence[str]) -> CapturedCluster | None:
    """Return the addresses of all captured brokers, if the only path is that of a replay log.

    Raise UsageError for a log that cannot be used.
    """
    if len(paths) != 1 or not is_log(paths[0]):
        return None
    facts = open_log(Path(paths[0]))
    servers = (parse_address(server) for _, server, _ in facts.connections.values())
    listeners = (address for ends in facts.nodes.values() for address in ends)
    return CapturedCluster(
        addresses={(host, port or 0) for host, port in servers} | {(host, port) for host, port in listeners}
    )


def _ask(settings: ReplaySettings, cluster: TargetCluster, needs_login: bool) -> Coroutine[None]:
    where = format_address(*settings.target[0])
    yield from ask_one(Part(ApiKey.API_VERSIONS, 0, {}))  # the handshake before it learns the versions
    if needs_login:  # nothing else is answered before it
        return
    version = chosen_version(ApiKey.METADATA, USUAL_METADATA, cluster.versions.get(ApiKey.METADATA)) or 1
    body: Tree = {"topics": []}
    if version >= LEAST_METADATA:
        body["allow_auto_topic_creation"] = False
    answer = yield from ask_one(Part(ApiKey.METADATA, version, body))
    if answer.bucket is Disposition.CLOSED and settings.credentials is None:
        raise AbortRun(
            f"{where} closes the connection after ApiVersions, as a listener with a login does (--sasl)"
        )
    if not answer.body:
        raise AbortRun(f"{where} does not tell the brokers of its cluster: {answer.bucket}")
    found, wanted = answer.body.get("cluster_id"), settings.known_target
    if wanted is not None and found is not None and found != wanted:
        raise AbortRun(f"{where}: the target's cluster id is {found}, not {wanted}")
    cluster.learn_metadata(answer.body, Names(settings, {}))
    others = sorted(node for node, address in cluster.nodes.items() if address not in settings.target)
    yield from ask((Part(ApiKey.API_VERSIONS, 0, {}, node) for node in others), synthetic=True)
    for address, reason in sorted(cluster.silent.items()):
        raise AbortRun(f"{format_address(*address)}, which {where} names as a broker: {reason}")


def check_output(folder: Path, captures: Iterable[str]) -> None:
    """Raise UsageError or OutputError unless the directory of a run can be written."""
    if folder.exists():
        raise UsageError(f"{folder} already exists; files of a run are never overwritten")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder.parent):
            pass
    except OSError as error:
        raise OutputError.of(folder, error) from None
    wanted = max(sum(map(_size, captures)), LEAST_ROOM)
    for place, what in (
        (folder.parent, "the files of the run"),
        (Path(tempfile.gettempdir()), "its requests"),
    ):
        free = shutil.disk_usage(place).free
        if is_full(place) or free < wanted:
            raise OutputError(
                f"cannot write to {place}: {what} may take {format_size(wanted)}, and {format_size(free)} "
                "are free"
            )


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:  # said by whoever reads it, with more sense
        return 0
