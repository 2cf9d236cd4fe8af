import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.BootstrapConfiguration;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.ManualMetadataUpdater;
import org.apache.kafka.clients.MetadataRecoveryStrategy;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.NetworkClientUtils;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.network.PlaintextChannelBuilder;
import org.apache.kafka.common.network.Selector;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;

/**
 * Many small requests, by the Java client's own network layer: each thread is a client with one connection and one
 * request in flight. Arguments: port, topic, number of exchanges, threads. Prints how many requests of each API and
 * version it sent, as JSON.
 */
public class Chatty {
    private static final ConcurrentMap<String, AtomicLong> SENT = new ConcurrentHashMap<>();
    private static final AtomicLong FAILED = new AtomicLong();
    private static AtomicLong left;
    private static String topic;
    private static int port;


    public static void main(String[] arguments) throws Exception {
        port = Integer.parseInt(arguments[0]);
        topic = arguments[1];
        left = new AtomicLong(Long.parseLong(arguments[2]));
        int count = Integer.parseInt(arguments[3]);
        List<Thread> threads = new ArrayList<>();
        AtomicInteger broken = new AtomicInteger();
        for (int number = 0; number < count; number++) {
            int own = number;
            threads.add(new Thread(() -> {
                try (Talker talker = new Talker(own)) {
                    talker.talk();
                } catch (Exception error) {
                    error.printStackTrace();
                    broken.incrementAndGet();
                }
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        List<String> members = new ArrayList<>();
        new TreeMap<>(SENT).forEach((name, total) -> members.add("\"" + name + "\": " + total));
        System.out.println("{\"connections\": " + count + ", \"failed\": " + FAILED + ", \"requests\": {" + String.join(", ", members) + "}}");
        System.exit(broken.get());
    }

    private static final class Talker implements AutoCloseable {
        private final int number;
        private final Time time = Time.SYSTEM;
        private final Node broker = new Node(1, "127.0.0.1", port);
        private final NetworkClient client;
        private final String group;
        private Uuid topicId;
        private String member = "";
        private int generation;
        private long step;

        Talker(int number) throws Exception {
            this.number = number;
            this.group = "group-" + number;
            LogContext context = new LogContext();
            PlaintextChannelBuilder channels = new PlaintextChannelBuilder(new ListenerName("CLIENT"));
            channels.configure(Map.of());
            Selector selector = new Selector(60_000, new Metrics(), time, "chatty" + number, channels, context);
            client = new NetworkClient(selector, new ManualMetadataUpdater(List.of(broker)), "chatty-" + number, 1,
                50, 50, 65_536, 65_536, 30_000, 10_000, 30_000, time, true, new ApiVersions(), context,
                MetadataRecoveryStrategy.NONE, BootstrapConfiguration.DISABLED, false);
            count("ApiVersions v" + ApiVersionsRequestData.HIGHEST_SUPPORTED_VERSION);
            NetworkClientUtils.awaitReady(client, broker, time, 30_000);
        }

        void talk() throws Exception {
            MetadataResponse known = (MetadataResponse) ask(metadata());
            topicId = known.topicMetadata().iterator().next().topicId();
            if (number % 3 == 2) join();
            while (left.getAndDecrement() > 0) {
                AbstractResponse answer = ask(next());
                if (answer.errorCounts().keySet().stream().anyMatch(error -> error.code() != 0)) FAILED.incrementAndGet();
                step++;
            }
        }

        /** Three kinds of client: producers, readers that also ask for offsets and metadata, and group members. */
        private AbstractRequest.Builder<?> next() {
            switch (number % 3) {
                case 0: return produce();
                case 1: return step % 8 == 7 ? metadata() : step % 2 == 0 ? fetch() : listOffsets();
                default: return step % 4 == 3 ? commit() : heartbeat();
            }
        }

        private AbstractResponse ask(AbstractRequest.Builder<?> builder) throws Exception {
            ClientResponse response = NetworkClientUtils.sendAndReceive(client, client.newClientRequest("1", builder, time.milliseconds(), true), time);
            count(response.requestHeader().apiKey().name + " v" + response.requestHeader().apiVersion());
            return response.responseBody();
        }

        private void count(String name) {
            SENT.computeIfAbsent(name, absent -> new AtomicLong()).incrementAndGet();
        }

        private AbstractRequest.Builder<?> metadata() {
            return new MetadataRequest.Builder(List.of(topic), false);
        }

        private AbstractRequest.Builder<?> produce() {
            SimpleRecord record = new SimpleRecord(time.milliseconds(), ("key-" + step).getBytes(), ("value-" + step).getBytes());
            var partition = new ProduceRequestData.PartitionProduceData().setIndex(number % 6)
                .setRecords(MemoryRecords.withRecords(Compression.NONE, record));
            var data = new ProduceRequestData().setAcks((short) 1).setTimeoutMs(30_000);
            data.topicData().add(new ProduceRequestData.TopicProduceData().setName(topic).setTopicId(topicId).setPartitionData(List.of(partition)));
            return ProduceRequest.builder(data);
        }

        private AbstractRequest.Builder<?> fetch() {
            var wanted = new FetchRequest.PartitionData(topicId, step / 32, -1, 256, java.util.Optional.empty());
            short newest = ApiMessageType.FETCH.highestSupportedVersion(true);
            return FetchRequest.Builder.forConsumer(newest, 0, 0, Map.of(new TopicPartition(topic, 0), wanted)).setMaxBytes(256);
        }

        private AbstractRequest.Builder<?> listOffsets() {
            var partition = new ListOffsetsRequestData.ListOffsetsPartition().setPartitionIndex((int) (step % 6)).setTimestamp(-1).setCurrentLeaderEpoch(-1);
            return ListOffsetsRequest.Builder.forConsumer(false, IsolationLevel.READ_UNCOMMITTED)
                .setTargetTimes(List.of(new ListOffsetsRequestData.ListOffsetsTopic().setName(topic).setPartitions(List.of(partition))));
        }

        private AbstractRequest.Builder<?> heartbeat() {
            return new HeartbeatRequest.Builder(new HeartbeatRequestData().setGroupId(group).setMemberId(member).setGenerationId(generation));
        }

        private AbstractRequest.Builder<?> commit() {
            var partition = new OffsetCommitRequestData.OffsetCommitRequestPartition().setPartitionIndex(number % 6).setCommittedOffset(step).setCommittedMetadata("");
            var data = new OffsetCommitRequestData().setGroupId(group).setMemberId(member).setGenerationIdOrMemberEpoch(generation)
                .setTopics(List.of(new OffsetCommitRequestData.OffsetCommitRequestTopic().setName(topic).setTopicId(topicId).setPartitions(List.of(partition))));
            return OffsetCommitRequest.Builder.forTopicIdsOrNames(data);
        }

        private void join() throws Exception {
            ask(new FindCoordinatorRequest.Builder(new FindCoordinatorRequestData().setKeyType((byte) 0).setCoordinatorKeys(List.of(group))));
            JoinGroupResponseData joined;
            do {
                Thread.sleep(200);
                var protocols = new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
                protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName("range").setMetadata(new byte[0]));
                joined = ((JoinGroupResponse) ask(new JoinGroupRequest.Builder(new JoinGroupRequestData().setGroupId(group).setMemberId(member)
                    .setSessionTimeoutMs(60_000).setRebalanceTimeoutMs(60_000).setProtocolType("consumer").setProtocols(protocols)))).data();
                member = joined.memberId();
                generation = joined.generationId();
            } while (joined.errorCode() != 0);
            var assignment = new SyncGroupRequestData.SyncGroupRequestAssignment().setMemberId(member).setAssignment(new byte[0]);
            ask(new SyncGroupRequest.Builder(new SyncGroupRequestData().setGroupId(group).setMemberId(member).setGenerationId(generation)
                .setProtocolType("consumer").setProtocolName("range").setAssignments(List.of(assignment))));
        }

        @Override public void close() {
            client.close();
        }
    }
}
