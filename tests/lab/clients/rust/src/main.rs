//! The Rust client of the lab: client WORK.json
//!
//! The words of the work are those of tests/lab/incidents/work.py; `extra` has settings of librdkafka. What fails
//! is printed, and the work goes on until the process is asked to end (SIGTERM).
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;

struct Work {
    fields: Value,
    over: Arc<AtomicBool>,
}

impl Work {
    fn text(&self, name: &str) -> &str {
        self.fields[name].as_str().unwrap_or("")
    }

    fn number(&self, name: &str) -> f64 {
        self.fields[name].as_f64().unwrap_or(0.0)
    }

    fn topics(&self) -> Vec<&str> {
        self.fields["topics"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.text("bootstrap")).set("client.id", self.text("client_id"));
        if self.text("role") == "consume" {
            config.set("group.id", self.text("group")).set("auto.offset.reset", self.text("reset"));
            if !self.text("strategy").is_empty() {
                config.set("partition.assignment.strategy", self.text("strategy"));
            }
        } else {
            config.set("linger.ms", self.number("linger_ms").to_string()).set("acks", self.text("acks"));
            config.set("compression.type", self.text("compression"));
            let transactional = self.text("transactional_id");
            if !transactional.is_empty() {
                config.set("transactional.id", transactional);
            } else {
                config.set("enable.idempotence", self.fields["idempotent"].to_string());
            }
        }
        for (name, value) in self.fields["extra"].as_object().into_iter().flatten() {
            config.set(name, value.as_str().map_or_else(|| value.to_string(), str::to_string));
        }
        config
    }

    /// Calls step with the number of each step, so many a second.
    fn paced(&self, mut step: impl FnMut(usize)) {
        let begin = Instant::now();
        let (records, burst) = (self.number("records") as usize, self.number("burst").max(1.0) as usize);
        let mut number = 0;
        while (records == 0 || number < records) && !self.over.load(Ordering::Relaxed) {
            if number % burst == 0 {
                let due = Duration::from_secs_f64(number as f64 / self.number("per_second"));
                sleep(due.saturating_sub(begin.elapsed()));
            }
            step(number);
            number += 1;
        }
    }

    fn send(&self, producer: &BaseProducer, number: usize) {
        let topics = self.topics();
        let client = self.text("client_id");
        let key = format!("{client}-{number}");
        let mut value = format!("{{\"sender\":\"{client}\",\"number\":{number},\"text\":\"");
        for step in 0.. {
            if value.len() + 2 >= self.number("value_bytes") as usize {
                break;
            }
            value.push_str(&format!("item{} ", (number * 31 + step * 7) % 997));
        }
        value.push_str("\"}");
        let record = BaseRecord::to(topics[number % topics.len()]).key(&key).payload(&value);
        if let Err((error, _)) = producer.send(record) {
            println!("not sent: {error}");
        }
        producer.poll(Duration::ZERO);
    }
}

fn produce(work: &Work) {
    let producer: BaseProducer = work.config().create().expect("a producer");
    work.paced(|number| work.send(&producer, number));
    producer.flush(Duration::from_secs(10)).unwrap_or_else(|error| println!("not delivered: {error}"));
}

fn transact(work: &Work) {
    let patience = Duration::from_secs(30);
    let producer: BaseProducer = work.config().create().expect("a producer");
    producer.init_transactions(patience).expect("a producer id");
    let (in_transaction, abort_every) = (work.number("in_transaction") as usize, work.number("abort_every") as usize);
    work.paced(|number| {
        producer.begin_transaction().expect("a transaction");
        for record in 0..in_transaction {
            work.send(&producer, number * in_transaction + record);
        }
        let ended = if abort_every > 0 && number % abort_every == abort_every - 1 {
            producer.flush(patience).and_then(|()| producer.abort_transaction(patience))
        } else {
            producer.commit_transaction(patience)
        };
        ended.unwrap_or_else(|error| println!("failed: {error}"));
    });
}

fn consume(work: &Work) {
    let consumer: BaseConsumer = work.config().create().expect("a consumer");
    consumer.subscribe(&work.topics()).expect("a subscription");
    while !work.over.load(Ordering::Relaxed) {
        match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(_)) => sleep(Duration::from_secs_f64(work.number("rest_ms") / 1000.0)),
            Some(Err(error)) => println!("not read: {error}"),
            None => {}
        }
    }
} // the consumer leaves its group when it is dropped

fn main() {
    let path = std::env::args().nth(1).expect("WORK.json");
    let fields = serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON");
    let over = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, over.clone()).expect("a signal handler");
    let work = Work { fields, over };
    match work.text("role") {
        "produce" => produce(&work),
        "transact" => transact(&work),
        "consume" => consume(&work),
        role => panic!("no such role: {role}"),
    }
}
