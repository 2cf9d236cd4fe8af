"""A kafka-python client: `python -m tests.lab.clients.kafka_python JOB.json`. Its debug log names every
request."""

from __future__ import annotations

import ast
import logging
import sys

import kafka

from tests.lab.clients.job import Job, Outcome, stopping


def _settings(job: Job) -> dict[str, object]:
    own = {name: _literal(value) for name, value in job.config.items()}
    return {"bootstrap_servers": job.bootstrap.split(","), "client_id": job.client_id, **own}


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def produce(job: Job, outcome: Outcome) -> None:
    producer = kafka.KafkaProducer(**_settings(job))
    for number in job.paced():
        topic = job.topics[number % len(job.topics)]
        headers = [("trace", b"%d" % number)] if job.headers else None
        sent = producer.send(topic, job.value(number), job.key(number), headers=headers)
        sent.add_callback(lambda _receipt, topic=topic: outcome.records.update([topic]))
        sent.add_errback(lambda error: outcome.failed.update([type(error).__name__]))
    producer.flush()
    producer.close()


def consume(job: Job, outcome: Outcome) -> None:
    class Counting(kafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: object) -> None:
            pass

        def on_partitions_assigned(self, assigned: object) -> None:
            outcome.assignments += 1

    consumer = kafka.KafkaConsumer(group_id=job.group, auto_offset_reset="earliest", **_settings(job))
    consumer.subscribe(list(job.topics), listener=Counting())
    while not stopping.requested:
        for partition, records in consumer.poll(timeout_ms=200).items():
            outcome.records[partition.topic] += len(records)
    consumer.close()


if __name__ == "__main__":
    stopping.listen()
    logging.basicConfig(level=logging.DEBUG, format="%(name)s %(message)s", stream=sys.stderr)
    done = Outcome("kafka-python", kafka.__version__)
    work = Job.read(sys.argv[1])
    {"produce": produce, "consume": consume}[work.role](work, done)
    done.write(sys.argv[1])
