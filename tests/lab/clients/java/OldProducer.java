import java.io.FileWriter;
import java.io.Writer;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** A Java producer in the words of 0.8.2, which later releases understand. Arguments: see LabClient. */
public class OldProducer {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> job = new HashMap<String, String>();
        Properties config = new Properties();
        for (String word : arguments) {
            int equals = word.indexOf('=');
            String key = word.substring(0, equals);
            if (key.startsWith("config:")) config.put(key.substring(7), word.substring(equals + 1));
            else job.put(key, word.substring(equals + 1));
        }
        config.put("bootstrap.servers", job.get("bootstrap"));
        config.put("client.id", job.get("client_id"));
        config.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        config.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        String[] topics = job.get("topics").split(",");
        int burst = Integer.parseInt(job.get("burst"));
        long pause = (long) (1000.0 * burst / Double.parseDouble(job.get("per_second")));
        ConcurrentMap<String, AtomicInteger> records = new ConcurrentHashMap<String, AtomicInteger>();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<byte[], byte[]>(config);
        Map<Integer, Future<RecordMetadata>> sent = new HashMap<Integer, Future<RecordMetadata>>();
        for (int number = 0; number < Integer.parseInt(job.get("records")); number++) {
            if (number > 0 && number % burst == 0) Thread.sleep(pause);
            StringBuilder text = new StringBuilder("{\"sender\":\"" + job.get("client_id") + "\",\"number\":" + number + ",\"text\":\"");
            for (int step = 0; text.length() < Integer.parseInt(job.get("value_bytes")) - 8; step++)
                text.append("item").append((number * 31 + step * 7) % 997).append(' ');
            byte[] key = (job.get("client_id") + "-" + number).getBytes("UTF-8");
            byte[] value = text.append("\"}").toString().getBytes("UTF-8");
            sent.put(number, producer.send(new ProducerRecord<byte[], byte[]>(topics[number % topics.length], key, value)));
        }
        for (Map.Entry<Integer, Future<RecordMetadata>> each : sent.entrySet()) {
            each.getValue().get();
            records.putIfAbsent(topics[each.getKey() % topics.length], new AtomicInteger());
            records.get(topics[each.getKey() % topics.length]).incrementAndGet();
        }
        producer.close();
        StringBuilder counts = new StringBuilder();
        for (Map.Entry<String, AtomicInteger> each : records.entrySet())
            counts.append(counts.length() == 0 ? "" : ",").append('"').append(each.getKey()).append("\":").append(each.getValue());
        try (Writer outcome = new FileWriter(job.get("outcome"))) {
            outcome.write("{\"library\":\"java\",\"version\":\"" + job.get("release") + "\",\"records\":{" + counts
                + "},\"failed\":{},\"assignments\":0,\"commits\":0}");
        }
    }
}
