"""An aiokafka client: `python -m tests.lab.clients.aio JOB.json`. Its debug log names every request."""

from __future__ import annotations

import ast
import asyncio
import logging
import sys
import time

import aiokafka

from tests.lab.clients.job import Job, Outcome, stopping


def _settings(job: Job) -> dict[str, object]:
    own = {name: _literal(value) for name, value in job.config.items()}
    return {"bootstrap_servers": job.bootstrap, "client_id": job.client_id, **own}


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


async def produce(job: Job, outcome: Outcome) -> None:
    producer = aiokafka.AIOKafkaProducer(**_settings(job))
    await producer.start()
    start = time.monotonic()
    waiting: list[tuple[str, asyncio.Future[object]]] = []
    for number in range(job.records):
        if number and number % job.burst == 0:
            await asyncio.sleep(max(0.0, start + number / job.per_second - time.monotonic()))
        topic = job.topics[number % len(job.topics)]
        waiting.append((topic, await producer.send(topic, job.value(number), job.key(number))))
    for topic, sent in waiting:
        try:
            await sent
            outcome.records[topic] += 1
        except aiokafka.errors.KafkaError as error:
            outcome.failed[type(error).__name__] += 1
    await producer.stop()


async def consume(job: Job, outcome: Outcome) -> None:
    class Counting(aiokafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: object) -> None:
            pass

        def on_partitions_assigned(self, assigned: object) -> None:
            outcome.assignments += 1

    consumer = aiokafka.AIOKafkaConsumer(group_id=job.group, auto_offset_reset="earliest", **_settings(job))
    await consumer.start()
    consumer.subscribe(list(job.topics), listener=Counting())
    while not stopping.requested:
        for partition, records in (await consumer.getmany(timeout_ms=200)).items():
            outcome.records[partition.topic] += len(records)
    await consumer.stop()


if __name__ == "__main__":
    stopping.listen()
    logging.basicConfig(level=logging.DEBUG, format="%(name)s %(message)s", stream=sys.stderr)
    done = Outcome("aiokafka", aiokafka.__version__)
    work = Job.read(sys.argv[1])
    asyncio.run({"produce": produce, "consume": consume}[work.role](work, done))
    done.write(sys.argv[1])
