"""A recording of Confluent's own serializers: their HTTP with a registry, and their traffic with Kafka.

Avro, Protobuf and JSON Schema, each a topic of ten records, with the id in front of the value; `guids` is
Avro with the GUID of the schema in a header. The second five of `avro` have a newer version of the schema.
"""

import json
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.helpers.registry_server import RegistryServer
from tests.lab.capture import Capture
from tests.lab.mock import MockCluster

COUNT = 10
T = descriptor_pb2.FieldDescriptorProto
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
    {"name": "items", "type": {"type": "array", "items": {
        "type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}}},
]  # fmt: skip
NEWER = [*FIELDS, {"name": "note", "type": ["null", "string"], "default": None}]
JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
    "properties": {"id": {"type": "integer"}, "customer": {"type": "object", "properties": {
        "name": {"type": "string"}, "score": {"type": "number"}}}},
}  # fmt: skip


def avro_schema(fields: list[dict[str, Any]]) -> str:
    """Return the text of an Avro schema."""
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def protobuf_class() -> Any:
    """Return the class of the second message of a file: its path stands in front of each value."""
    file = descriptor_pb2.FileDescriptorProto(name="recorded.proto", package="recorded", syntax="proto3")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=T.TYPE_INT64, label=T.LABEL_OPTIONAL)
    order.field.add(name="tags", number=2, type=T.TYPE_STRING, label=T.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("recorded.Order"))


class Recording(NamedTuple):
    """A recording, the registry that was asked, which can be started again, and Kafka's ports."""

    path: Path
    registry: RegistryServer
    kafka_ports: list[int]


def record_serializers(path: Path) -> Recording:
    """Write the recording."""
    with (
        RegistryServer() as registry,
        MockCluster(brokers=1) as cluster,
        Capture(path, [registry.port, *cluster.ports]),
    ):
        _produce(registry.url, cluster.bootstrap)
        _consume(cluster.bootstrap)
    return Recording(path, registry, cluster.ports)


def _produce(url: str, bootstrap: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that the client uses
        from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
        from confluent_kafka.schema_registry.avro import AvroSerializer
        from confluent_kafka.schema_registry.json_schema import JSONSerializer
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    client = SchemaRegistryClient({"url": url})
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": False})
    order = protobuf_class()
    half = range(COUNT // 2)
    rest = range(COUNT // 2, COUNT)
    in_header = {"schema.id.serializer": header_schema_id_serializer}
    avro, newer, guids = (
        AvroSerializer(client, avro_schema(fields), conf=conf)
        for fields, conf in ((FIELDS, None), (NEWER, None), (NEWER, in_header))
    )
    _send(producer, "avro", avro, ((number, avro_value(number)) for number in half))
    _send(producer, "avro", newer, ((number, avro_value(number) | {"note": f"n{number}"}) for number in rest))
    _send(
        producer, "guids", guids, ((number, avro_value(number) | {"note": None}) for number in range(COUNT))
    )
    protobuf = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    messages = ((number, order(id=2**40 + number, tags=["a", f"t{number}"])) for number in range(COUNT))
    _send(producer, "protobuf", protobuf, messages)
    objects = ({"id": n, "customer": {"name": f"c{n}", "score": n / 4}} for n in range(COUNT))
    _send(producer, "json", JSONSerializer(json.dumps(JSON_SCHEMA), client), enumerate(objects))
    assert producer.flush(20) == 0


def avro_value(number: int) -> dict[str, Any]:
    """Return the value of a record with a number."""
    from decimal import Decimal

    return {"id": number, "amount": Decimal(number * 150).scaleb(-2), "items": [{"sku": f"s{number}"}]}


def _send(
    producer: Producer, topic: str, serialize: Callable[..., Any], values: Iterable[tuple[int, Any]]
) -> None:
    from confluent_kafka.serialization import MessageField, SerializationContext

    for number, value in values:
        headers: list[tuple[str, Any]] = []
        data = serialize(value, SerializationContext(topic, MessageField.VALUE, headers))
        producer.produce(topic, data, b"k%d" % number, headers=headers)
    producer.flush(20)


def _consume(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["avro"])
    read = 0
    for _ in range(200):
        message = consumer.poll(0.1)
        read += message is not None and message.error() is None
        if read == COUNT:
            break
    consumer.close()
    assert read == COUNT
