import java.io.FileWriter;
import java.io.Writer;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** A Java consumer in the words of 0.9, which releases before 4.0 understand. Arguments: see LabClient. */
public class OldConsumer {
    private static volatile boolean stopping;
    private static int assignments;

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
        config.put("group.id", job.get("group"));
        config.put("auto.offset.reset", "earliest");
        config.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        config.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        final CountDownLatch finished = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread() {
            @Override public void run() {
                stopping = true;
                try {
                    finished.await();
                } catch (InterruptedException end) {
                    Thread.currentThread().interrupt();
                }
            }
        });
        Map<String, Integer> records = new TreeMap<String, Integer>();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<byte[], byte[]>(config);
        consumer.subscribe(Arrays.asList(job.get("topics").split(",")), new ConsumerRebalanceListener() {
            @Override public void onPartitionsRevoked(Collection<TopicPartition> revoked) { }
            @Override public void onPartitionsAssigned(Collection<TopicPartition> assigned) { assignments++; }
        });
        while (!stopping) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(200)) {
                Integer known = records.get(record.topic());
                records.put(record.topic(), known == null ? 1 : known + 1);
            }
        }
        consumer.close();
        StringBuilder counts = new StringBuilder();
        for (Map.Entry<String, Integer> each : records.entrySet())
            counts.append(counts.length() == 0 ? "" : ",").append('"').append(each.getKey()).append("\":").append(each.getValue());
        try (Writer outcome = new FileWriter(job.get("outcome"))) {
            outcome.write("{\"library\":\"java\",\"version\":\"" + job.get("release") + "\",\"records\":{" + counts
                + "},\"failed\":{},\"assignments\":" + assignments + ",\"commits\":0}");
        }
        finished.countDown();
    }
}
