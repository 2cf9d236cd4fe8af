import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * The Java client. Arguments: the job as key=value words; keys with a dot, and those after "config:", are Kafka's own.
 * When its connections are closed it writes its own counts, as JSON, to the file named by outcome=.
 */
public class LabClient {
    private final Map<String, String> job = new HashMap<>();
    private final Properties config = new Properties();
    private final Map<String, Integer> records = new ConcurrentHashMap<>();
    private final Map<String, Integer> failed = new ConcurrentHashMap<>();
    private int assignments;
    private int commits;
    private volatile boolean stopping;
    private KafkaConsumer<byte[], byte[]> consumer;
    private final CountDownLatch finished = new CountDownLatch(1);

    public static void main(String[] arguments) throws Exception {
        LabClient client = new LabClient(arguments);
        // SIGTERM asks for an orderly end: leave the group, close the connections, write the counts.
        Runtime.getRuntime().addShutdownHook(new Thread(client::stop));
        try {
            switch (client.job.get("role")) {
                case "produce": client.produce(); break;
                case "consume": client.consume(); break;
                case "transact": client.transact(); break;
                case "transform": client.transform(); break;
                case "share": client.share(); break;
                default: throw new IllegalArgumentException("role");
            }
            client.writeOutcome();
        } finally {
            client.finished.countDown();
        }
    }

    private LabClient(String[] arguments) {
        for (String word : arguments) {
            int equals = word.indexOf('=');
            String key = word.substring(0, equals);
            String value = word.substring(equals + 1);
            if (key.startsWith("config:")) config.put(key.substring(7), value);
            else job.put(key, value);
        }
        config.put("bootstrap.servers", job.get("bootstrap"));
        config.put("client.id", job.get("client_id"));
        for (String side : List.of("key", "value")) {
            config.put(side + ".serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            config.put(side + ".deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        }
    }

    private void produce() {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            long start = System.nanoTime();
            for (int number = 0; number < number("records") && !stopping; number++) {
                pace(start, number);
                producer.send(record(number), count(records, number));
            }
        }
    }

    private void consume() {
        openConsumer(topics());
        try {
            while (!stopping) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    records.merge(record.topic(), 1, Integer::sum);
                    rest();
                }
            }
        } finally {
            consumer.close();
        }
    }

    /** One transaction a burst; every third is aborted and its records do not count. */
    private void transact() {
        Map<String, Integer> aborted = new ConcurrentHashMap<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            producer.initTransactions();
            long start = System.nanoTime();
            int burst = number("burst");
            for (int number = 0; number < number("records") && !stopping; number++) {
                pace(start, number);
                boolean doomed = number / burst % 3 == 2;
                if (number % burst == 0) producer.beginTransaction();
                producer.send(record(number), count(doomed ? aborted : records, number));
                if (number % burst < burst - 1) continue;
                producer.flush();
                if (doomed) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    commits++;
                }
            }
        }
    }

    /** Reads the first topic, writes what it read to the second, and commits both in one transaction. */
    private void transform() {
        openConsumer(topics().subList(0, 1));
        String target = topics().get(1);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            producer.initTransactions();
            while (!stopping) {
                Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
                List<ConsumerRecord<byte[], byte[]>> batch = new ArrayList<>();
                consumer.poll(Duration.ofMillis(500)).forEach(batch::add);
                if (batch.isEmpty()) continue;
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> record : batch) {
                    producer.send(new ProducerRecord<>(target, record.key(), record.value()), count(records, 0, target));
                    done.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(done, consumer.groupMetadata());
                producer.commitTransaction();
                commits++;
            }
        } finally {
            consumer.close();
        }
    }

    /** Takes records of a queue; from the record number `poison_after` on it gives all of them back. */
    private void share() {
        boolean explicit = "explicit".equals(config.get("share.acknowledgement.mode"));
        int poison = Integer.parseInt(job.getOrDefault("poison_after", "0"));
        int taken = 0;
        config.put("group.id", job.get("group"));
        try (KafkaShareConsumer<byte[], byte[]> sharer = new KafkaShareConsumer<>(config)) {
            sharer.subscribe(topics());
            while (!stopping) {
                for (ConsumerRecord<byte[], byte[]> record : sharer.poll(Duration.ofMillis(200))) {
                    records.merge(record.topic(), 1, Integer::sum);
                    boolean fails = poison > 0 && ++taken > poison;
                    if (explicit) sharer.acknowledge(record, fails ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                }
            }
        }
    }

    private void openConsumer(List<String> topics) {
        config.put("group.id", job.get("group"));
        config.putIfAbsent("auto.offset.reset", "earliest");
        KafkaConsumer<byte[], byte[]> opened = new KafkaConsumer<>(config);
        opened.subscribe(topics, new ConsumerRebalanceListener() {
            @Override public void onPartitionsRevoked(Collection<TopicPartition> revoked) { }
            @Override public void onPartitionsAssigned(Collection<TopicPartition> assigned) { assignments++; }
        });
        consumer = opened;
    }

    private ProducerRecord<byte[], byte[]> record(int number) {
        StringBuilder text = new StringBuilder("{\"sender\":\"" + job.get("client_id") + "\",\"number\":" + number + ",\"text\":\"");
        for (int step = 0; text.length() < number("value_bytes") - 8; step++)
            text.append("item").append((number * 31 + step * 7) % 997).append(' ');
        String key = job.getOrDefault("key", "").isEmpty() ? job.get("client_id") + "-" + number : job.get("key");
        return new ProducerRecord<>(topic(number), key.getBytes(), text.append("\"}").toString().getBytes());
    }

    private List<String> topics() {
        return List.of(job.get("topics").split(","));
    }

    private String topic(int number) {
        return topics().get(number % topics().size());
    }

    private Callback count(Map<String, Integer> counts, int number) {
        return count(counts, number, topic(number));
    }

    private Callback count(Map<String, Integer> counts, int number, String topic) {
        return (receipt, error) -> {
            if (error == null) counts.merge(topic, 1, Integer::sum);
            else failed.merge(error.getClass().getSimpleName(), 1, Integer::sum);
        };
    }

    private void pace(long start, int number) {
        if (number == 0 || number % number("burst") != 0) return;
        double due = start + number / Double.parseDouble(job.get("per_second")) * 1e9;
        long wait = (long) ((due - System.nanoTime()) / 1e6);
        try {
            if (wait > 0) Thread.sleep(wait);
        } catch (InterruptedException end) {
            stopping = true;
        }
    }

    /** Rests as long as the work on a record takes. */
    private void rest() {
        try {
            Thread.sleep(Integer.parseInt(job.getOrDefault("rest_ms", "0")));
        } catch (InterruptedException end) {
            stopping = true;
        }
    }

    private int number(String key) {
        return Integer.parseInt(job.get(key));
    }

    private void stop() {
        stopping = true;
        try {
            finished.await();
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    private void writeOutcome() throws IOException {
        String text = String.format(
            "{\"library\":\"java\",\"version\":\"%s\",\"records\":%s,\"failed\":%s,\"assignments\":%d,\"commits\":%d}",
            version(), json(records), json(failed), assignments, commits);
        Files.writeString(Path.of(job.get("outcome")), text);
    }

    /** Reads the release as kafka-clients states it: AppInfoParser, which has it too, moved in 4.4. */
    static String version() throws IOException {
        Properties facts = new Properties();
        try (InputStream file = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            facts.load(file);
        }
        return facts.getProperty("version");
    }

    private static String json(Map<String, Integer> counts) {
        List<String> members = new ArrayList<>();
        new TreeMap<>(counts).forEach((name, count) -> members.add("\"" + name + "\":" + count));
        return "{" + String.join(",", members) + "}";
    }
}
