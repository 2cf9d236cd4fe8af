"""A librdkafka client (through confluent-kafka): `python -m tests.lab.clients.librdkafka JOB.json`.

Its protocol debug log, on standard error to the very end, names every request sent, with version and
correlation id.
"""

from __future__ import annotations

import sys
import time

import confluent_kafka as ck

from tests.lab.clients.job import Job, Outcome, stopping


def run(job: Job, outcome: Outcome) -> None:
    {"produce": _produce, "consume": _consume, "transact": _transact}[job.role](job, outcome)


def _settings(job: Job, **own: object) -> dict[str, object]:
    # client.id is also what the log lines and the broker's request log carry.
    return {
        "bootstrap.servers": job.bootstrap,
        "client.id": job.client_id,
        "debug": "protocol",
        **own,
        **job.config,
    }


def _producer(job: Job) -> ck.Producer:
    return ck.Producer(_settings(job))


def _on_delivery(outcome: Outcome) -> object:
    def note(error: ck.KafkaError | None, message: ck.Message) -> None:
        if error is None:
            outcome.records[str(message.topic())] += 1
        else:
            outcome.failed[error.name()] += 1

    return note


def _produce(job: Job, outcome: Outcome) -> None:
    producer = _producer(job)
    note = _on_delivery(outcome)
    for number in job.paced():
        topic = job.topics[number % len(job.topics)]
        headers = {"trace": b"%d" % number} if job.headers else None
        try:
            producer.produce(topic, job.value(number), job.key(number), headers=headers, on_delivery=note)
        except ck.KafkaException as refused:  # the library knows already that the broker will not have it
            outcome.failed[refused.args[0].name()] += 1
        producer.poll(0)
    producer.flush(60)
    producer.close()


def _consume(job: Job, outcome: Outcome) -> None:
    consumer = ck.Consumer(_settings(job, **{"group.id": job.group, "auto.offset.reset": "earliest"}))

    def assigned(_consumer: ck.Consumer, _partitions: list[ck.TopicPartition]) -> None:
        outcome.assignments += 1

    consumer.subscribe(list(job.topics), on_assign=assigned)
    while not stopping.requested:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if (error := message.error()) is not None:
            outcome.failed[error.name()] += 1
        else:
            outcome.records[str(message.topic())] += 1
            time.sleep(job.rest_ms / 1000)
    consumer.close()


def _transact(job: Job, outcome: Outcome) -> None:
    """One transaction a burst; every third is aborted and its records do not count."""
    producer = _producer(job)
    producer.init_transactions()
    note = _on_delivery(outcome)
    aborted = Outcome(outcome.library, outcome.version)
    for number in job.paced():
        transaction, step = divmod(number, job.burst)
        doomed = transaction % 3 == 2
        if step == 0:
            producer.begin_transaction()
        topic = job.topics[number % len(job.topics)]
        producer.produce(
            topic, job.value(number), job.key(number), on_delivery=_on_delivery(aborted) if doomed else note
        )
        time.sleep(job.rest_ms / 1000)
        if step == job.burst - 1:
            producer.abort_transaction() if doomed else producer.commit_transaction()
            outcome.commits += not doomed
    producer.close()


if __name__ == "__main__":
    stopping.listen()
    done = Outcome("librdkafka", ck.libversion()[0])
    run(Job.read(sys.argv[1]), done)
    done.write(sys.argv[1])
