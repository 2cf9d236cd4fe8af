"""The payload of records: keys, values and headers as JSON, text, Avro, Protobuf or JSON Schema.

In come bytes of a record, its topic and its headers, out goes a value for people and programs, or a fault.

- `wire_format` finds the id of a schema in front of bytes, or in a header.
- `schema_store` finds the schema of an id or a subject: in a folder (`schema_files`) or in a registry
  (`schema_registry`).
- `avro_reader`, `protobuf_reader` and `plain_reader` make values of bytes. The first two load their library
  when it is first needed.
- `payload_decoder` puts these together. `where` filters records by an expression over what was decoded.

Bytes are hostile: depth and size are bounded, and a value that does not decode is a fault with its reason.
"""
