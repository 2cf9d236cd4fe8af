"""Clients that do what no library's example does: `python -m tests.lab.incidents.errand NAME JSON`.

In: the name of a function below and its arguments. Each goes on until it is ended, and prints what failed."""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka import KafkaConsumer
from kafka import TopicPartition as Partition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError


def create_topics(
    bootstrap: str, client_id: str, prefix: str, partitions: int, replicas: int, pause_s: float
) -> None:
    """Create topic after topic."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","), client_id=client_id)
    for number in itertools.count():
        try:
            admin.create_topics([NewTopic(f"{prefix}-{number}", partitions, replicas)])
        except KafkaError as error:
            print("not created:", repr(error), flush=True)
        time.sleep(pause_s)


def list_rights(bootstrap: str, client_id: str, user: str, password: str, pause_s: float) -> None:
    """List all rights, as a tool does that keeps them in files."""
    from kafka.admin import (
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePatternFilter,
        ResourceType,
    )

    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    login |= {"sasl_plain_username": user, "sasl_plain_password": password}
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","), client_id=client_id, **login)
    resources = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    everything = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, resources)
    while True:
        try:
            admin.describe_acls(everything)
        except KafkaError as error:
            print("not listed:", repr(error), flush=True)
        time.sleep(pause_s)


def commit_from_outside(bootstrap: str, client_id: str, group: str, topic: str, pause_s: float) -> None:
    """Read one partition without joining the group, and commit to it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "client.id": client_id, "group.id": group,
                         "enable.auto.commit": False, "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    for number in itertools.count(1):
        consumer.poll(pause_s)
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, number)], asynchronous=False)
        except KafkaException as error:
            print("not committed:", error, flush=True)
        time.sleep(pause_s)


def commit_with_notes(
    bootstrap: str, client_id: str, group: str, topic: str, note_bytes: int, pause_s: float
) -> None:
    """Read a topic as a member of a group, and commit with a long note beside each offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "client.id": client_id, "group.id": group,
                         "enable.auto.commit": False, "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(pause_s)
        if message is None or message.error():
            continue
        offset = TopicPartition(topic, message.partition(), message.offset() + 1, metadata="n" * note_bytes)
        try:
            consumer.commit(offsets=[offset], asynchronous=False)
        except KafkaException as error:
            print("not committed:", error, flush=True)
        time.sleep(pause_s)


def create_if_missing(bootstrap: str, client_id: str, topics: list[str]) -> None:
    """Create topics as an application does that cannot know whether they are there, and do no more."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","), client_id=client_id)
    for topic in topics:
        try:
            admin.create_topics([NewTopic(topic, 6, 3)])
        except KafkaError as error:
            print("not created:", repr(error), flush=True)
    while True:
        time.sleep(1)


def delete_group_in_use(bootstrap: str, client_id: str, group: str, pause_s: float) -> None:
    """Delete a group again and again, as a clean-up job does that does not see that it has members."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": client_id})
    while True:
        print(admin.delete_consumer_groups([group])[group].exception(10), flush=True)
        time.sleep(pause_s)


def pause_partition(bootstrap: str, client_id: str, group: str, topic: str, after_s: float) -> None:
    """Read a topic; after some time pause one partition, and never go on with it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "client.id": client_id, "group.id": group,
                         "auto.offset.reset": "latest"})  # fmt: skip
    consumer.subscribe([topic])
    begin, paused = time.monotonic(), False
    while True:
        consumer.poll(0.5)
        if not paused and time.monotonic() - begin > after_s and consumer.assignment():
            consumer.pause([TopicPartition(topic, 0)])
            print("paused", flush=True)
            paused = True


def read_without_group(bootstrap: str, client_id: str, topic: str, partitions: int) -> None:
    """Read all partitions of a topic from the beginning, without a group and without commits."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), client_id=client_id, group_id=None)
    own = [Partition(topic, number) for number in range(partitions)]
    consumer.assign(own)
    consumer.seek_to_beginning(*own)
    while True:
        consumer.poll(timeout_ms=500)


def poll_settings(bootstrap: str, client_id: str, topics: list[str], pause_s: float) -> None:
    """Ask for the settings of topics, and for all groups, as a careless exporter of metrics does."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": client_id})
    resources = [ConfigResource("topic", topic) for topic in topics]
    while True:
        for resource in resources:
            admin.describe_configs([resource])[resource].exception(10)
            time.sleep(pause_s)
        admin.list_consumer_groups().exception(10)


def leak_connections(bootstrap: str, client_id: str, topic: str, pause_s: float) -> None:
    """Make a consumer for each piece of work, and close none."""
    kept = []
    while True:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), client_id=client_id, group_id=None)
        consumer.assign([Partition(topic, 0)])
        consumer.poll(timeout_ms=50)
        kept.append(consumer)
        time.sleep(pause_s)


ERRANDS = {
    function.__name__: function
    for function in (
        create_topics,
        list_rights,
        commit_from_outside,
        commit_with_notes,
        create_if_missing,
        delete_group_in_use,
        pause_partition,
        read_without_group,
        poll_settings,
        leak_connections,
    )
}


def main() -> None:
    arguments: dict[str, Any] = json.loads(sys.argv[2])
    ERRANDS[sys.argv[1]](**arguments)


if __name__ == "__main__":
    main()
