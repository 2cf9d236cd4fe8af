"""Input of each target of fuzzing, and which targets belong to a subject of the report."""

WHAT_IT_READS = {
    "capture": "whole capture files, to rows of tables; any splits",
    "reader": "capture files: index and pass one; any splits",
    "tcp": "TCP segments: reassembly, and all after it; any slabs",
    "framing": "ordered streams: framing and pairing; any slabs",
    "records": "record batches and message sets, both readers",
    "compression": "compressed records, every codec",
    "tls": "TLS records, handshakes and key logs",
    "codec": "schema programs: the plain codec, there and back",
    "columns": "schema programs: the columnar reader, against the plain codec",
    "embedded": "schema programs: messages inside messages",
    "filters": "schema programs: filters on messages",
    "old": "messages of Kafka 0.7",
    "command": "whole commands on capture files, twice, with different splits",
}
SUBJECTS = {
    "capture": ("capture", "reader"),
    "TCP": ("tcp",),
    "framing": ("framing",),
    "records": ("records", "compression"),
    "TLS": ("tls",),
    "schema programs": ("codec", "columns", "embedded", "filters", "old"),
    "whole commands": ("command",),
}
SUBJECT_OF = {target: subject for subject, targets in SUBJECTS.items() for target in targets}
