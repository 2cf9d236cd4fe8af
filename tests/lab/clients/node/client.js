// The kafkajs client of the incidents: node client.js WORK.json
//
// The words of the work are those of tests/lab/incidents/work.py. What fails is printed, and the work goes on.
"use strict";

const fs = require("node:fs");
const { Kafka, Partitioners, CompressionTypes, logLevel } = require("kafkajs");

const work = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const note = (error) => console.log("failed:", error.message);

function client() {
  const config = {
    clientId: work.client_id,
    brokers: work.bootstrap.split(","),
    logLevel: logLevel.WARN,
    retry: { retries: 20, initialRetryTime: 100, maxRetryTime: 2000 },
    ...(work.timeout_ms ? { requestTimeout: work.timeout_ms } : {}),
    ...work.extra,
  };
  if (work.user) {
    config.sasl = { mechanism: work.mechanism.toLowerCase(), username: work.user, password: work.password };
    config.ssl = false;
  }
  if (work.tls) config.ssl = work.authority ? { ca: [fs.readFileSync(work.authority)] } : true;
  return new Kafka(config);
}

function record(number) {
  let text = `{"sender":"${work.client_id}","number":${number},"text":"`;
  for (let step = 0; text.length < work.value_bytes - 2; step++) text += `item${(number * 31 + step * 7) % 997} `;
  const message = { key: work.key || `${work.client_id}-${number}`, value: text.slice(0, work.value_bytes - 2) + '"}' };
  if (work.timestamp_offset_ms) message.timestamp = String(Date.now() + work.timestamp_offset_ms);
  return message;
}

async function paced(step) {
  const begin = Date.now();
  for (let number = 0; !work.records || number < work.records; number += work.burst) {
    await sleep(Math.max(0, begin + (number * 1000) / work.per_second - Date.now()));
    await step(number);
  }
}

// Members leave their groups when the process is asked to end.
function onStop(connected) {
  process.on("SIGTERM", () => connected.disconnect().finally(() => process.exit(0)));
}

async function produce() {
  const producer = client().producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    idempotent: work.idempotent,
  });
  onStop(producer);
  await producer.connect();
  await paced((number) => {
    const topic = work.topics[number % work.topics.length];
    const messages = Array.from({ length: work.burst }, (_, step) => record(number + step));
    const acks = work.acks === "all" ? -1 : Number(work.acks);
    const compression = work.compression === "gzip" ? CompressionTypes.GZIP : CompressionTypes.None;
    producer.send({ topic, messages, acks, compression }).catch(note);
  });
}

async function consume() {
  const consumer = client().consumer({
    groupId: work.group,
    ...(work.session_ms ? { sessionTimeout: work.session_ms, heartbeatInterval: Math.floor(work.session_ms / 3) } : {}),
  });
  onStop(consumer);
  await consumer.connect();
  await consumer.subscribe({ topics: work.topics, fromBeginning: work.reset === "earliest" });
  let read = 0;
  await consumer.run({
    eachMessage: async () => {
      read += 1;
      const rest = work.stall_after && read === work.stall_after ? work.stall_ms : work.rest_ms;
      if (rest) await sleep(rest);
    },
  });
  await new Promise(() => {});
}

async function list() {
  const admin = client().admin();
  await admin.connect();
  await paced(() => admin.fetchTopicMetadata().catch(note));
}

async function connect() {
  await paced(async (number) => {
    const producer = client().producer({ createPartitioner: Partitioners.DefaultPartitioner });
    await producer.connect();
    await producer.send({ topic: work.topics[0], messages: [record(number)] }).catch(note);
    await producer.disconnect();
  });
}

(async () => {
  for (;;) {
    try {
      await { produce, consume, list, connect }[work.role]();
      return;
    } catch (error) {
      note(error);
      await sleep(1000);
    }
  }
})();
