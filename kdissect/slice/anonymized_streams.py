"""The reading for `slice --anonymize`: the streams of all connections in the slice, anonymized, on disk.

In come an `ExchangeReader` and what is selected, out goes a `PacketRewriter` for the packets. All exchanges
of the connections are anonymized, selected or not, since their packets are copied.

Plaintext of TLS is written as plaintext of Kafka. A TLS connection that cannot be opened has names in its
certificates, and nobody could check what else: it is taken out of the selection, and counted.
"""

from collections.abc import Mapping

import numpy as np

from kdissect.array_types import Bools
from kdissect.exchanges.anonymize_messages import AnonymizedExchange, anonymize_topic_names
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.reader import ExchangeReader
from kdissect.jit.rows import Records
from kdissect.slice.anonymized_frames import FrameAnonymizer
from kdissect.slice.packet_rewrite import PacketRewriter, StreamFacts
from kdissect.slice.packet_selection import CommentNames, PacketSelection
from kdissect.slice.stream_overlay import PlainParts, StreamOverlay
from kdissect.streams.flow_state import TLS, TLS_PASSED
from kdissect.streams.tls.tls_state import Plain


class AnonymizedStreams:
    """Anonymized streams; `left_out` counts TLS connections that cannot be opened."""

    def __init__(self, frames: FrameAnonymizer) -> None:
        self.frames = frames
        self.left_out = 0
        self._overlay, self._plain = StreamOverlay(), PlainParts()

    def read(self, reader: ExchangeReader, selection: PacketSelection) -> PacketRewriter:
        """Read the connections of a selection, and take those out of it that cannot be opened."""
        rows = {one.connection for several in selection.occupants.values() for one in several if one.wanted}
        wanted = np.array(sorted(rows), np.int64)

        def is_wanted(exchanges: Records, _reader: ExchangeReader) -> Bools:
            return np.isin(exchanges["connection"], wanted)

        def observe(connection: int, part: Plain) -> None:
            if connection in rows:
                self._plain.add(connection, part.side, part.packet, part.length, part.data is not None)

        reader.observe_plaintext(observe)
        for exchange in reader.exchanges(is_wanted):
            self._add(exchange, int(reader.client_is_b(exchange.connection)))
        facts = {row: self._facts(row, reader) for row in rows}
        closed = {row for row, one in facts.items() if one.is_tls and not self._plain.is_open(row)}
        self.left_out = len(closed)
        for ends, several in selection.occupants.items():
            selection.occupants[ends] = [
                one._replace(wanted=None) if one.connection in closed else one for one in several
            ]
        selection.connections -= len(closed)
        return PacketRewriter(self.frames.pseudonyms, self._overlay, self._plain, facts)

    def comment_names(self, topics: Mapping[bytes, str]) -> CommentNames:
        """Return what comments are made from, with the names of topics by id."""
        pseudonyms = self.frames.pseudonyms
        return CommentNames(
            lambda decoded: AnonymizedExchange(decoded, pseudonyms), anonymize_topic_names(topics, pseudonyms)
        )

    def close(self) -> None:
        """Remove what is on disk."""
        self._overlay.close()

    def _add(self, exchange: Exchange, client_side: int) -> None:
        replaced = self.frames.frames(DecodedExchange(exchange))
        frames = ((exchange.request, replaced.request, client_side),
                  (exchange.response, replaced.response, 1 - client_side))  # fmt: skip
        for frame, data, side in frames:
            if frame is not None and data is not None:
                self._overlay.add((exchange.connection, side), frame.position, frame.size, data)

    def _facts(self, row: int, reader: ExchangeReader) -> StreamFacts:
        return StreamFacts(row, reader.first_sequences(row), reader.protocol(row) in (TLS, TLS_PASSED))
