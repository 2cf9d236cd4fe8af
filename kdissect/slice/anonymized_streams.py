"""The reading for `slice --anonymize`: the streams of all connections in the slice, anonymized, on disk.

In come an `ExchangeReader` and what is selected, out goes a `PacketRewriter` for the packets. All exchanges
of the connections are anonymized, selected or not, since their packets are copied.

Plaintext of TLS is written as plaintext of Kafka. A TLS connection that cannot be opened has names in its
certificates, and nobody could check what else: it is taken out of the selection, and counted.
"""

import marshal
from collections.abc import Mapping

import numpy as np

from kdissect.array_types import Bools
from kdissect.exchanges.anonymize_messages import AnonymizedExchange, anonymize_topic_names
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import unpack
from kdissect.exchanges.exchange_workers import PackedBatch, Text, packed_batches, texts_in_order
from kdissect.exchanges.reader import ExchangeReader
from kdissect.jit.rows import Records
from kdissect.slice.anonymized_frames import FrameAnonymizer
from kdissect.slice.chosen_exchanges import CommentNames
from kdissect.slice.packet_rewrite import PacketRewriter, StreamFacts
from kdissect.slice.packet_selection import PacketSelection
from kdissect.slice.same_length_names import SameLengthPseudonyms
from kdissect.slice.stream_overlay import PlainParts, StreamOverlay
from kdissect.streams.flow_state import TLS, TLS_PASSED
from kdissect.streams.tls.tls_state import Plain


class AnonymizedStreams:
    """Anonymized streams.

    Counted are TLS connections `left_out`, which cannot be opened, messages of which only the header is left
    (`blanked`), and `opaque` batches of records, which were not compressed again.
    """

    def __init__(self, pseudonyms: SameLengthPseudonyms) -> None:
        self._pseudonyms = pseudonyms
        self.left_out = self.blanked = self.opaque = 0
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
        batches = packed_batches(reader.packed_exchanges(is_wanted), reader)
        for _, text in texts_in_order(batches, self._replaced):
            self._add(text, reader)
        facts = {row: self._facts(row, reader) for row in rows}
        closed = {row for row, one in facts.items() if one.is_tls and not self._plain.is_open(row)}
        self.left_out = len(closed)
        for ends, several in selection.occupants.items():
            selection.occupants[ends] = [
                one._replace(wanted=None) if one.connection in closed else one for one in several
            ]
        selection.connections -= len(closed)
        return PacketRewriter(self._pseudonyms, self._overlay, self._plain, facts)

    def comment_names(self, topics: Mapping[bytes, str]) -> CommentNames:
        """Return what comments are made from, with the names of topics by id."""
        pseudonyms = self._pseudonyms
        return CommentNames(
            lambda decoded: AnonymizedExchange(decoded, pseudonyms), anonymize_topic_names(topics, pseudonyms)
        )

    def close(self) -> None:
        """Remove what is on disk."""
        self._overlay.close()

    def _replaced(self, batch: PackedBatch) -> tuple[int, bytes]:
        """Return the number of exchanges of a batch, and as bytes what takes the place of their frames."""
        anonymizer = FrameAnonymizer(self._pseudonyms)
        replaced: list[tuple[int, bool, int, int, bytes]] = []
        for exchange in map(unpack, batch.exchanges):
            frames = anonymizer.frames(DecodedExchange(exchange))
            pairs = ((exchange.request, frames.request), (exchange.response, frames.response))
            replaced += (
                (exchange.connection, frame is exchange.response, frame.position, frame.size, data)
                for frame, data in pairs
                if frame is not None and data is not None
            )
        counts = anonymizer.blanked, anonymizer.records.opaque
        return len(batch.exchanges), marshal.dumps((counts, replaced))

    def _add(self, text: Text, reader: ExchangeReader) -> None:
        (blanked, opaque), replaced = marshal.loads(text)  # noqa: S302 - of our own processes
        self.blanked += blanked
        self.opaque += opaque
        for connection, is_response, position, size, data in replaced:
            side = int(reader.client_is_b(connection) != is_response)
            self._overlay.add((connection, side), position, size, data)

    def _facts(self, row: int, reader: ExchangeReader) -> StreamFacts:
        return StreamFacts(row, reader.first_sequences(row), reader.protocol(row) in (TLS, TLS_PASSED))
