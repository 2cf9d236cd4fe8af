"""Bad captures of good conversations: operations on packets, and what of the streams survives them.

A `Packet` names stream bytes by their position instead of carrying them, so that the operations need not know
TCP's arithmetic and the oracle can say which bytes a capture still has. Operations come in two kinds. Those
of the network (and its hosts) change what is sent; those of the capture change what is recorded of it.
`spoil` applies a random choice of both, network first; `survivors` works out which bytes the recorded packets
hold.
"""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tests.helpers.conversations import CLIENT, SERVER, Sent, Talk

MS = 1_000_000
FIN, SYN, RST, ACK = 1, 2, 4, 16
IN_TIME_NS = 19 * MS  # a byte that comes later than this after its turn may be given up for lost by then

NEVER, CAPTURED, LATE, CUT = range(4)  # what became of a stream byte


@dataclass(frozen=True, slots=True)
class Packet:
    time_ns: int
    side: int
    start: int
    stop: int
    acked: int  # stream position of the other side
    flags: int = ACK
    copy: bool = False  # not the packet that carried these bytes first
    forged: bool = False  # carries other bytes than the true ones, where those were seen before
    kept: int = 1 << 40  # payload bytes that the capture kept


@dataclass
class Scene:
    """One conversation under treatment."""

    talk: Talk
    packets: list[Packet]
    chance: random.Random
    isn: tuple[int, int]
    done: list[str] = field(default_factory=list)


def resegment(talk: Talk, chance: random.Random) -> list[Sent]:
    """Cut the same bytes differently: runs of one side are joined and cut into segments of 1 byte to any
    size."""
    size = chance.choice([1, 7, 100, 536, 1448, 1460, 9000, 65_483, 200_000])
    if size * 3000 < sum(map(len, talk.streams)):
        size = 536
    sent: list[Sent] = []
    for one in talk.sent:
        if sent and sent[-1].side == one.side and one.time_ns - sent[-1].time_ns < MS and size > 536:
            sent[-1] = sent[-1]._replace(stop=one.stop)
        else:
            sent.append(one)
    return [
        Sent(one.time_ns + (at - one.start) // size, one.side, at, min(at + size, one.stop))
        for one in sent
        for at in range(one.start, one.stop, size)
    ]


def opened(sent: list[Sent], streams: tuple[bytes, bytes], data_in_syn: int) -> list[Packet]:
    """Return the packets of a connection from its SYN to its last byte."""
    first = sent[0].time_ns - 3 * MS
    packets = [
        Packet(first, CLIENT, 0, data_in_syn, 0, SYN),
        Packet(first + MS, SERVER, 0, 0, data_in_syn, SYN | ACK),
        Packet(first + 2 * MS, CLIENT, data_in_syn, data_in_syn, 0),
    ]
    at = [data_in_syn, 0]
    for one in sent:
        if one.stop > at[one.side]:
            start = max(one.start, at[one.side])
            packets.append(Packet(one.time_ns, one.side, start, one.stop, at[1 - one.side]))
            at[one.side] = one.stop
    return packets


def _data(scene: Scene) -> list[int]:
    return [at for at, packet in enumerate(scene.packets) if packet.stop > packet.start]


def _some(scene: Scene, share: float) -> list[int]:
    data = _data(scene)
    return scene.chance.sample(data, max(1, int(len(data) * share))) if data else []


def _insert(scene: Scene, more: list[Packet]) -> None:
    scene.packets = sorted(scene.packets + more, key=lambda packet: packet.time_ns)


def _moved(packet: Packet, by_ns: int) -> Packet:
    return replace(packet, time_ns=packet.time_ns + by_ns)


# Operations of the network and the hosts.


def retransmit(scene: Scene) -> None:
    """Spurious retransmissions: a copy of a packet, up to a second later."""
    later = [_moved(scene.packets[at], scene.chance.randrange(1000 * MS)) for at in _some(scene, 0.1)]
    _insert(scene, [replace(packet, copy=True) for packet in later if not packet.flags & SYN])


def recover(scene: Scene) -> None:
    """Real retransmissions: a packet was lost before the capture and comes after those that were sent behind
    it."""
    for at in sorted(_some(scene, 0.03), reverse=True):
        lost = scene.packets[at]
        if lost.flags & SYN:
            continue
        delay = scene.chance.randrange(30 * MS, 400 * MS)
        behind = at + 1
        while behind < len(scene.packets) and scene.packets[behind].side == lost.side:
            behind += 1
        until = scene.packets[behind - 1].time_ns + delay
        scene.packets[at:] = [
            *scene.packets[at + 1 : behind],
            replace(lost, time_ns=until),
            *(_moved(packet, delay) for packet in scene.packets[behind:]),
        ]


def overlap(scene: Scene) -> None:
    """Segments that hold bytes of several others again, cut anywhere."""
    _insert(scene, _overlaps(scene, forged=False))


def contradict(scene: Scene) -> None:
    """Overlapping segments with other bytes than before."""
    _insert(scene, _overlaps(scene, forged=True))


def _overlaps(scene: Scene, *, forged: bool) -> list[Packet]:
    found = []
    for at in _some(scene, 0.05):
        packet = scene.packets[at]
        start = max(0, packet.start - scene.chance.randrange(3000))
        stop = scene.chance.randrange(start, packet.stop) + 1
        found.append(
            replace(packet, start=start, stop=stop, copy=True, forged=forged,
                    time_ns=packet.time_ns + scene.chance.randrange(40 * MS), flags=ACK)
        )  # fmt: skip
    return found


def keep_alive(scene: Scene) -> None:
    """Probes that repeat the last byte, right or wrong, or carry none."""
    probes = []
    for at in _some(scene, 0.1):
        packet = scene.packets[at]
        probes.append(
            replace(packet, start=packet.stop - 1, stop=packet.stop - scene.chance.choice([0, 1]), copy=True,
                    forged=scene.chance.random() < 0.5, time_ns=packet.time_ns + 25 * MS, flags=ACK)
        )  # fmt: skip
    _insert(scene, probes)


def reset(scene: Scene) -> None:
    """An RST ends the conversation somewhere."""
    end = scene.chance.randrange(len(scene.packets)) + 1
    last = scene.packets[end - 1]
    scene.packets = [
        *scene.packets[:end],
        replace(last, start=last.stop, time_ns=last.time_ns + 1, flags=RST),
    ]


def half_close(scene: Scene) -> None:
    """A FIN of the client with or behind its last byte; the broker may have more to say."""
    ends = [at for at, packet in enumerate(scene.packets) if packet.side == CLIENT]
    last = scene.packets[ends[-1]]
    if scene.chance.random() < 0.5 and not last.flags & SYN:
        scene.packets[ends[-1]] = replace(last, flags=last.flags | FIN)
    else:
        _insert(scene, [replace(last, start=last.stop, flags=FIN | ACK, time_ns=last.time_ns + 1)])


# Operations of the capture.


def reorder(scene: Scene) -> None:
    """Packets are recorded up to some milliseconds late: several queues, several interfaces."""
    depth = scene.chance.choice([1, 5, 12]) * MS
    scene.packets = [_moved(packet, scene.chance.randrange(depth)) for packet in scene.packets]
    scene.packets.sort(key=lambda packet: packet.time_ns)


def response_first(scene: Scene) -> None:
    """Record responses before the requests that they answer."""
    early = scene.chance.randrange(1, 5) * MS
    scene.packets = [_moved(one, -early if one.side == SERVER else 0) for one in scene.packets]
    scene.packets.sort(key=lambda packet: packet.time_ns)


def duplicate(scene: Scene) -> None:
    """Every packet is recorded twice, as on the interface `any`."""
    scene.packets = [
        one
        for packet in scene.packets
        for one in (packet, replace(packet, copy=True, time_ns=packet.time_ns + 1000))
    ]


def lose(scene: Scene) -> None:
    """Single packets are missing."""
    share = scene.chance.choice([0.01, 0.05, 0.2])
    scene.packets = [packet for packet in scene.packets if scene.chance.random() > share]


def lose_burst(scene: Scene) -> None:
    """Many packets in a row are missing."""
    start = scene.chance.randrange(len(scene.packets))
    del scene.packets[start : start + scene.chance.randrange(1, 20)]


def cut_packets(scene: Scene) -> None:
    """A snaplen: only the beginning of each packet is kept."""
    kept = scene.chance.choice([0, 12, 42, 58, 74, 200, 458, 1400])
    scene.packets = [replace(packet, kept=kept) for packet in scene.packets]


def cut_start(scene: Scene) -> None:
    """The capture begins in the middle."""
    del scene.packets[: scene.chance.randrange(len(scene.packets))]


def cut_end(scene: Scene) -> None:
    """The capture ends before the conversation does."""
    del scene.packets[scene.chance.randrange(len(scene.packets)) + 1 :]


def one_way(scene: Scene) -> None:
    """Only one direction was recorded: asymmetric routes."""
    side = scene.chance.choice([CLIENT, SERVER])
    scene.packets = [packet for packet in scene.packets if packet.side == side]


def step_back(scene: Scene) -> None:
    """The clock is set back."""
    at, by = scene.chance.randrange(len(scene.packets)), scene.chance.choice([1, 100, 10**4, 10**8]) * MS
    scene.packets[at:] = [_moved(packet, -by) for packet in scene.packets[at:]]


def two_clocks(scene: Scene) -> None:
    """Another host, whose clock is ahead, captured the same; the two captures are merged by time."""
    ahead = scene.chance.choice([2, 70, 700, 5000]) * MS
    _insert(scene, [replace(_moved(packet, ahead), copy=True) for packet in scene.packets])


NETWORK: tuple[Callable[[Scene], None], ...] = (
    retransmit, recover, overlap, contradict, keep_alive, half_close, reset,
)  # fmt: skip
CAPTURE: tuple[Callable[[Scene], None], ...] = (
    response_first, reorder, lose, lose_burst, cut_packets, one_way, cut_start, cut_end, duplicate, step_back,
)  # fmt: skip
LATER_CAPTURE = (two_clocks,)  # of the second family of seeds: what came later does not change the first one
HOSTS = ("resegment", "data_in_syn", "wrap")
WRAPPINGS = ("tunnel", "fragment", "two_places")  # what becomes of whole packets: see `frames_of`
LATER_WRAPPINGS = ("zero_windows", "six", "link", "other_tunnel", "padding", "short_original")
LATER = (*(one.__name__ for one in LATER_CAPTURE), *LATER_WRAPPINGS)
WRAPPED = 0.15  # share of random combinations that each of them joins
OPERATIONS = (*HOSTS, *(one.__name__ for one in (*NETWORK, *CAPTURE)))


class Wreck(NamedTuple):
    """Remains of a conversation: packets in the order of the capture, and what became of each stream
    byte."""

    talk: Talk
    isn: tuple[int, int]
    packets: list[Packet]
    payloads: list[bytes]
    fates: tuple[np.ndarray, np.ndarray]
    done: tuple[str, ...]


def spoil(talk: Talk, seed: int, operations: tuple[str, ...] | None = None, later: bool = False) -> Wreck:
    """Apply these operations, or a random choice of them, each with random parameters; `later`: of the second
    family."""
    chance = random.Random(seed)
    if operations is None:
        operations = tuple(chance.sample(OPERATIONS, min(chance.choice([1, 2, 3, 4, 6, 9]), len(OPERATIONS))))
        wrappings = (*WRAPPINGS, *LATER) if later else WRAPPINGS
        operations += tuple(one for one in wrappings if random.Random(f"{one} {seed}").random() < WRAPPED)
    sent = resegment(talk, chance) if "resegment" in operations else talk.sent
    in_syn = min(chance.randrange(1, 1400), len(talk.streams[CLIENT])) if "data_in_syn" in operations else 0
    isn = [chance.randrange(1 << 32), chance.randrange(1 << 32)]
    if "wrap" in operations:
        isn = [-chance.randrange(len(stream) + 2) & 0xFFFFFFFF for stream in talk.streams]
    scene = Scene(talk, opened(sent, talk.streams, in_syn), chance, (isn[0], isn[1]))
    for operation in NETWORK:
        if operation.__name__ in operations:
            operation(scene)
    due = _due(scene)
    for operation in (*LATER_CAPTURE, *CAPTURE):
        if operation.__name__ in operations and scene.packets:
            if operation is step_back:
                fates, payloads = survivors(scene, due)
            operation(scene)
    if "step_back" not in operations or not scene.packets:
        fates, payloads = survivors(scene, due)
    return Wreck(talk, scene.isn, scene.packets, payloads, fates, operations)


def _due(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Return for each stream byte when it was to be seen first."""
    due = (np.zeros(len(scene.talk.streams[0]), np.int64), np.zeros(len(scene.talk.streams[1]), np.int64))
    for packet in scene.packets:
        if not packet.copy:
            due[packet.side][packet.start : packet.stop] = packet.time_ns
    return due


def survivors(
    scene: Scene, due: tuple[np.ndarray, np.ndarray]
) -> tuple[tuple[np.ndarray, np.ndarray], list[bytes]]:
    """Return whether the capture has each stream byte, and the payload of each packet.

    The first copy of a byte counts. It is LATE when it comes so long after its turn that the stream may have
    gone on without it, or after a packet that was cut where it should have been: then it may be found or not.
    """
    fates = (np.zeros(len(due[0]), np.int8), np.zeros(len(due[1]), np.int8))
    payloads = []
    for packet in scene.packets:
        fate = fates[packet.side]
        kept = min(packet.stop, packet.start + packet.kept)
        payload = scene.talk.streams[packet.side][packet.start : packet.stop]
        if packet.forged and packet.stop > packet.start:
            true = np.frombuffer(payload, np.uint8)
            known = fate[packet.start : packet.stop] == CAPTURED
            payload = np.where(known, true ^ 0x5A, true).tobytes()
        payloads.append(payload)
        here = fate[packet.start : kept]
        late = packet.time_ns - due[packet.side][packet.start : kept] > IN_TIME_NS
        here[:] = np.where(here == NEVER, np.where(late, LATE, CAPTURED), np.where(here == CUT, LATE, here))
        cut = fate[kept : packet.stop]
        cut[cut == NEVER] = CUT
    return fates, payloads


def after(first: Wreck, second: Wreck, chance: random.Random, *, opened: bool) -> Wreck:
    """Append a second connection on the same ports, its opening in the capture or not.

    Its sequence numbers are far from those before: where they are near by chance, nothing could tell the two
    apart.
    """
    far = chance.randrange(1 << 27, (1 << 32) - (1 << 27))
    isn = tuple((number + far) & 0xFFFFFFFF for number in first.isn)
    packets, payloads = second.packets, second.payloads
    if not opened:
        first_data = next(at for at, packet in enumerate(packets) if not packet.flags & SYN and packet.stop)
        packets, payloads = packets[first_data:], payloads[first_data:]
    if first.packets:
        later = first.packets[-1].time_ns + 1000 * MS - packets[0].time_ns
        packets = [_moved(packet, later) for packet in packets]
    return second._replace(isn=(isn[0], isn[1]), packets=packets, payloads=payloads)


IPV4, IPV6 = b"\x08\0", b"\x86\xdd"
ETHERNET = bytes(12) + IPV4


def frame_of(packet: Packet, payload: bytes, wreck: Wreck, ends: tuple[bytes, int, bytes, int]) -> bytes:
    """Return the packet as it is recorded, before it is cut; a segment too large for IP's length field has
    length 0."""
    client_host, client_port, server_host, server_port = ends
    source, target = (client_port, server_port) if packet.side == CLIENT else (server_port, client_port)
    hosts = client_host + server_host if packet.side == CLIENT else server_host + client_host
    seq = wreck.isn[packet.side] + (0 if packet.flags & SYN else 1) + packet.start
    ack = wreck.isn[1 - packet.side] + 1 + packet.acked if packet.flags & ACK else 0
    total = 40 + len(payload)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, total if total < 1 << 16 else 0, 0, 0, 64, 6, 0)
    tcp = struct.pack(
        ">HHIIBBHHH", source, target, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, packet.flags, 512, 0, 0
    )
    return ETHERNET + ip + hosts + tcp + payload


HEADERS = 14 + 40
PART = 1200  # bytes of a fragment
LONGEST_PACKET = 65_000  # longer ones are not sent through tunnels, nor in fragments


def frames_of(
    packet: Packet, payload: bytes, wreck: Wreck, ends: tuple[bytes, int, bytes, int], number: int
) -> list[tuple[int, bytes, int]]:
    """Return what is recorded of the packet, mostly one frame: time, bytes on the wire, bytes kept."""
    chance = random.Random(number)
    data = frame_of(packet, payload, wreck, ends)
    more = random.Random(f"later {number}")
    if "zero_windows" in wreck.done and more.random() < 0.3:
        data = data[:48] + bytes(2) + data[50:]
    if len(data) > LONGEST_PACKET:
        return [(packet.time_ns, data, HEADERS + packet.kept)]
    if "two_places" in wreck.done:
        data = data[:18] + struct.pack(">H", 1 + number % 65_535) + data[20:]
    if "six" in wreck.done:
        data = _six(data, more)
    frames = [data]
    if "six" not in wreck.done and "fragment" in wreck.done and packet.kept >= len(payload) > PART:
        frames = _fragments(data, number)
        if chance.random() < 0.3:
            chance.shuffle(frames)
    if "tunnel" in wreck.done:
        frames = [_tunnelled(frame, chance) for frame in frames]
    if "other_tunnel" in wreck.done:
        frames = [_tunnelled_otherwise(frame, more) for frame in frames]
    kept = len(frames[0]) - len(payload) + packet.kept if len(frames) == 1 else 1 << 40
    recorded = [(packet.time_ns, frame, kept) for frame in frames]
    if "two_places" in wreck.done:
        behind = [(at + 400_000, _routed(frame), kept + 4) for at, frame, kept in recorded]
        recorded = [one for pair in zip(recorded, behind, strict=True) for one in pair]
    if "link" in wreck.done:
        recorded = [(at, *_linked(frame, kept, more)) for at, frame, kept in recorded]
    if "padding" in wreck.done:
        recorded = [(at, *_padded(frame, kept, more)) for at, frame, kept in recorded]
    return recorded


def _fragments(data: bytes, number: int) -> list[bytes]:
    """Cut an IPv4 packet in an Ethernet frame."""
    header, body = data[14:34], data[34:]
    found = []
    for start in range(0, len(body), PART):
        part = body[start : start + PART]
        more = 0x2000 if start + PART < len(body) else 0
        about = struct.pack(">HHH", 20 + len(part), 1 + number % 65_535, start // 8 | more)
        found.append(ETHERNET + header[:2] + about + header[8:] + part)
    return found


def _outer(protocol: int, body: bytes) -> bytes:
    """Put a tunnel's IP header before what it carries."""
    ends = b"\xac\x10\0\1\xac\x10\0\2"
    return ETHERNET + struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0) + ends + body


def _tunnelled(frame: bytes, chance: random.Random) -> bytes:
    """Put a frame, or the packet in it, into one of several tunnels."""
    kind = chance.randrange(4)
    if kind == 0:
        vxlan = struct.pack(">HHHH", 5000, 4789, 16 + len(frame), 0) + b"\x08\0\0\0\0\0\7\0"
        return _outer(17, vxlan + frame)
    if kind == 1:
        return _outer(47, b"\x20\0" + frame[12:14] + b"\0\0\0\5" + frame[14:])
    if kind == 2:
        return _outer(47, b"\x10\0\x88\xbe" + bytes(4) + b"\x10\0\0\1" + bytes(4) + frame)
    return _outer(4 if frame[12:14] == IPV4 else 41, frame[14:])


def _routed(frame: bytes) -> bytes:
    """Return a frame as it is seen one router on, with a VLAN tag."""
    hops = 22 if frame[12:14] == IPV4 else 21
    return frame[:12] + b"\x81\0\0\x05" + frame[12:hops] + b"\x3f" + frame[hops + 1 :]


def _six(frame: bytes, chance: random.Random) -> bytes:
    """Return the TCP segment of an IPv4 frame in IPv6, behind some extension headers."""
    headers = chance.choice([(), (0,), (60,), (0, 60, 43), (51, 60)])  # hop by hop, destination, routing, AH
    chain = b""
    for kind, following in zip(headers, (*headers, 6)[1:], strict=True):
        chain += bytes([following, 4]) + bytes(22) if kind == 51 else bytes([following, 1]) + bytes(14)
    first = headers[0] if headers else 6
    ends = bytes(12) + frame[26:30] + bytes(12) + frame[30:34]
    body = chain + frame[34:]
    return frame[:12] + IPV6 + struct.pack(">IHBB", 6 << 28, len(body), first, 64) + ends + body


def _tunnelled_otherwise(frame: bytes, chance: random.Random) -> bytes:
    """Put a frame, or the packet in it, into one of several other tunnels."""
    kind = chance.randrange(3)
    if kind == 0:
        geneve = b"\2\0\x65\x58\0\0\7\0" + b"\1\2\3\1abcd"
        return _outer(17, struct.pack(">HHHH", 5000, 6081, 24 + len(frame), 0) + geneve + frame)
    if kind == 1:  # with a sequence number and the container of a PDU session (3GPP TS 38.415)
        gtp = struct.pack(">BBHIHBB", 0x36, 255, len(frame) - 14 + 8, 9, 1, 0, 0x85) + b"\1\x10\3\0"
        return _outer(17, struct.pack(">HHHH", 2152, 2152, 10 + len(frame), 0) + gtp + frame[14:])
    return _outer(47, b"\x10\0\x22\xeb" + bytes(4) + b"\x20\0\0\1" + bytes(8) + frame)


def _linked(frame: bytes, kept: int, chance: random.Random) -> tuple[bytes, int]:
    """Put tags, labels or a PPPoE session between Ethernet and what it carries."""
    plain = frame[12:14] in (IPV4, IPV6)
    kind = chance.randrange(4 if plain else 2)
    if kind == 0:
        between = b"\x81\0\0\5" + frame[12:14]
    elif kind == 1:
        between = b"\x88\xa8\0\6\x81\0\0\5" + frame[12:14]
    elif kind == 2:
        between = b"\x88\x47" + b"\0\1\0\x40" + b"\0\1\1\x40"
    else:
        ppp = b"\0\x21" if frame[12:14] == IPV4 else b"\0\x57"
        between = b"\x88\x64" + struct.pack(">BBHH", 0x11, 0, 5, len(frame) - 12) + ppp
    return frame[:12] + between + frame[14:], kept + len(between) - 2


def _padded(frame: bytes, kept: int, chance: random.Random) -> tuple[bytes, int]:
    """Pad a frame as Ethernet does, or keep its checksum, if all of the frame is kept."""
    padding = bytes(chance.randrange(256) for _ in range(chance.randrange(20)))
    return (frame + padding, 1 << 40) if kept >= len(frame) else (frame, kept)


def wire_length(data: bytes, wreck: Wreck) -> int:
    """Return what the record says was on the wire: in broken captures less than it holds."""
    return len(data) - 30 if "short_original" in wreck.done and len(data) <= LONGEST_PACKET else len(data)
