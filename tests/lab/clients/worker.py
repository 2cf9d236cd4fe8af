"""Clients in Python for the incidents: `python -m tests.lab.clients.worker WORK.json`.

librdkafka (through confluent-kafka), kafka-python and aiokafka do the same work, each with its own habits.
None gives up: what fails is printed, and the work goes on until the process is ended. A consumer that is
asked to end (SIGTERM) leaves its group.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Work = SimpleNamespace  # tests.lab.incidents.work.Work, as it came out of the file


def pauses(work: Work) -> Iterator[tuple[int, float]]:
    """Yield the number of each step, and how long to wait before it, so that `per_second` is kept."""
    begin = time.monotonic()
    for number in range(work.records) if work.records else itertools.count():
        due = begin + number / work.per_second if number % work.burst == 0 else 0.0
        yield number, max(0.0, due - time.monotonic())


def value(work: Work, number: int) -> bytes:
    text = f'{{"sender":"{work.client_id}","number":{number},"text":"'
    words = " ".join(f"item{(number * 31 + step * 7) % 997}" for step in range(work.value_bytes // 6))
    return (text + words)[: max(work.value_bytes - 2, 20)].encode() + b'"}'


def key(work: Work, number: int) -> bytes | None:
    return None if work.keyless else (work.key or f"{work.client_id}-{number}").encode()


def moment(work: Work) -> int | None:
    return int(time.time() * 1000) + work.timestamp_offset_ms if work.timestamp_offset_ms else None


def rest(work: Work, read: int) -> float:
    """Return how long a consumer rests after its so manieth record, in seconds."""
    return (work.stall_ms if work.stall_after and read == work.stall_after else work.rest_ms) / 1000


def wanted(**settings: Any) -> dict[str, Any]:
    return {name: setting for name, setting in settings.items() if setting}


class Librdkafka:
    """confluent-kafka's clients."""

    def __init__(self, work: Work) -> None:
        import confluent_kafka

        self.library, self.work = confluent_kafka, work
        self.config: dict[str, Any] = {"bootstrap.servers": work.bootstrap, "client.id": work.client_id}
        if work.user:
            self.config |= {
                "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": work.mechanism,
                "sasl.username": work.user, "sasl.password": work.password,
            }  # fmt: skip
        if work.tls:
            self.config |= {"security.protocol": "SSL"} | wanted(**{"ssl.ca.location": work.authority})
        producing = {
            "linger.ms": work.linger_ms, "acks": work.acks, "compression.type": work.compression,
            "enable.idempotence": work.idempotent or bool(work.transactional_id),
        } | wanted(
            **{
                "request.timeout.ms": work.timeout_ms, "delivery.timeout.ms": work.delivery_ms,
                "socket.timeout.ms": work.timeout_ms, "transactional.id": work.transactional_id,
            }
        )  # fmt: skip
        consuming = {"group.id": work.group, "auto.offset.reset": work.reset} | wanted(
            **{
                "session.timeout.ms": work.session_ms, "heartbeat.interval.ms": work.session_ms // 3,
                "max.poll.interval.ms": work.poll_ms, "group.instance.id": work.instance_id,
                "partition.assignment.strategy": work.strategy, "socket.timeout.ms": work.timeout_ms,
            }
        )  # fmt: skip
        role = (
            consuming if work.role == "consume" else producing if work.role in ("produce", "transact") else {}
        )
        self.config |= role | work.extra

    def delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            print("not delivered:", error, flush=True)

    def send(self, producer: Any, number: int) -> None:
        work = self.work
        dated = wanted(timestamp=moment(work))
        topic = work.topics[number % len(work.topics)]
        try:
            producer.produce(
                topic, value(work, number), key(work, number), on_delivery=self.delivered, **dated
            )
        except (self.library.KafkaException, BufferError) as error:
            print("not sent:", error, flush=True)

    def produce(self) -> None:
        producer = self.library.Producer(self.config)
        try:
            for number, pause in pauses(self.work):
                due = time.monotonic() + pause
                while (left := due - time.monotonic()) > 0:
                    producer.poll(left)  # returns earlier when something was delivered
                self.send(producer, number)
                producer.poll(0)
        finally:
            producer.flush(10)

    def consume(self) -> None:
        consumer = self.library.Consumer(self.config)
        consumer.subscribe(self.work.topics)
        try:
            self._read(consumer)
        finally:
            consumer.close()

    def _read(self, consumer: Any) -> None:
        read = 0
        while True:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is not None:
                print("not read:", message.error(), flush=True)
                continue
            read += 1
            if self.work.poison_after and read > self.work.poison_after:
                time.sleep(0.1)
                again = self.library.TopicPartition(message.topic(), message.partition(), message.offset())
                consumer.seek(again)
                continue
            if self.work.commit_each and read % self.work.commit_each == 0:
                consumer.commit(message=message)
            time.sleep(rest(self.work, read))

    def transact(self) -> None:
        producer = self.library.Producer(self.config)
        producer.init_transactions(60)
        for number, pause in pauses(self.work):
            time.sleep(pause)
            producer.begin_transaction()
            for record in range(self.work.in_transaction):
                self.send(producer, number * self.work.in_transaction + record)
            producer.flush(10)
            time.sleep(self.work.hold_s)
            if self.work.abort_every and number % self.work.abort_every == self.work.abort_every - 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()

    def list(self) -> None:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self.config)
        for _, pause in pauses(self.work):
            time.sleep(pause)
            admin.list_topics(timeout=5)

    def connect(self) -> None:
        """Open a producer for each record, as code does that was written in a hurry."""
        for number, pause in pauses(self.work):
            time.sleep(pause)
            producer = self.library.Producer(self.config)
            self.send(producer, number)
            producer.flush(2)
            del producer


class KafkaPython:
    """kafka-python's clients."""

    def __init__(self, work: Work) -> None:
        import kafka

        self.library, self.work = kafka, work
        self.config: dict[str, Any] = {
            "bootstrap_servers": work.bootstrap.split(","),
            "client_id": work.client_id,
        }
        self.config |= _security(work) | wanted(request_timeout_ms=work.timeout_ms)

    def produce(self) -> None:
        work = self.work
        config = self.config | {
            "linger_ms": work.linger_ms, "acks": work.acks if work.acks == "all" else int(work.acks),
            "enable_idempotence": work.idempotent, "compression_type": _compression(work),
        } | wanted(delivery_timeout_ms=work.delivery_ms) | work.extra  # fmt: skip
        producer = self.library.KafkaProducer(**config)
        for number, pause in pauses(work):
            time.sleep(pause)
            topic = work.topics[number % len(work.topics)]
            try:
                sent = producer.send(topic, value(work, number), key(work, number), timestamp_ms=moment(work))
                sent.add_errback(lambda error: print("not delivered:", repr(error), flush=True))
            except self.library.errors.KafkaError as error:
                print("not sent:", repr(error), flush=True)
        producer.flush()

    def consume(self) -> None:
        work = self.work
        config = self.config | {"group_id": work.group, "auto_offset_reset": work.reset} | wanted(
            session_timeout_ms=work.session_ms, heartbeat_interval_ms=work.session_ms // 3,
            max_poll_interval_ms=work.poll_ms, group_instance_id=work.instance_id,
        ) | work.extra  # fmt: skip
        consumer = self.library.KafkaConsumer(*work.topics, **config)
        read = 0
        try:
            while True:
                for records in consumer.poll(timeout_ms=500).values():
                    for _ in records:
                        read += 1
                        time.sleep(rest(work, read))
        finally:
            consumer.close()

    def connect(self) -> None:
        for number, pause in pauses(self.work):
            time.sleep(pause)
            producer = self.library.KafkaProducer(**self.config)
            producer.send(self.work.topics[0], value(self.work, number))
            producer.close(2)


class Aiokafka:
    """aiokafka's clients."""

    def __init__(self, work: Work) -> None:
        import aiokafka

        self.library, self.work = aiokafka, work
        self.config: dict[str, Any] = {"bootstrap_servers": work.bootstrap, "client_id": work.client_id}
        self.config |= _security(work) | wanted(request_timeout_ms=work.timeout_ms)

    def produce(self) -> None:
        asyncio.run(self._produce())

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _produce(self) -> None:
        work = self.work
        config = self.config | {
            "linger_ms": work.linger_ms, "acks": work.acks if work.acks == "all" else int(work.acks),
            "enable_idempotence": work.idempotent, "compression_type": _compression(work),
        } | work.extra  # fmt: skip
        producer = self.library.AIOKafkaProducer(**config)
        await producer.start()
        background = set()
        for number, pause in pauses(work):
            await asyncio.sleep(pause)
            topic = work.topics[number % len(work.topics)]
            try:
                sent = await producer.send(
                    topic, value(work, number), key(work, number), timestamp_ms=moment(work)
                )
                background.add(sent)
                sent.add_done_callback(background.discard)
                sent.add_done_callback(_report)
            except self.library.errors.KafkaError as error:
                print("not sent:", repr(error), flush=True)
        await producer.flush()

    async def _consume(self) -> None:
        work = self.work
        config = self.config | {"group_id": work.group, "auto_offset_reset": work.reset} | wanted(
            session_timeout_ms=work.session_ms, heartbeat_interval_ms=work.session_ms // 3,
            max_poll_interval_ms=work.poll_ms, group_instance_id=work.instance_id,
        ) | work.extra  # fmt: skip
        consumer = self.library.AIOKafkaConsumer(*work.topics, **config)
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await consumer.start()
        read = 0
        try:
            while True:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    for _ in records:
                        read += 1
                        await asyncio.sleep(rest(work, read))
        except asyncio.CancelledError:
            sys.exit(0)
        finally:
            await consumer.stop()


def _report(done: asyncio.Future[Any]) -> None:
    if (error := done.exception()) is not None:
        print("not delivered:", repr(error), flush=True)


def _compression(work: Work) -> str | None:
    return None if work.compression == "none" else str(work.compression)


def _security(work: Work) -> dict[str, Any]:
    if work.user:
        return {
            "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": work.mechanism,
            "sasl_plain_username": work.user, "sasl_plain_password": work.password,
        }  # fmt: skip
    if not work.tls:
        return {}
    import ssl

    trusted = {"cafile": work.authority} if work.authority else {}
    return {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(**trusted)}


LIBRARIES = {"librdkafka": Librdkafka, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


def _end(_signal: int, _frame: object) -> None:
    sys.exit(0)


def main() -> None:
    work = Work(**json.loads(Path(sys.argv[1]).read_text()))
    signal.signal(signal.SIGTERM, _end)
    while True:
        try:
            getattr(LIBRARIES[work.library](work), work.role)()
        except Exception as error:  # noqa: BLE001 - whatever it is, a service would be started again
            print("again:", repr(error), flush=True)
            time.sleep(1)
        else:
            return


if __name__ == "__main__":
    main()
