import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * An operator with a long list: asks for nearly everything the Java admin client can ask. Arguments: see LabClient;
 * of the topics, the first is looked at and the second is created and deleted. A refusal is an answer, too.
 */
public class LabAdmin {
    private static final Map<String, Integer> refused = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Map<String, String> job = new HashMap<>();
        Properties config = new Properties();
        for (String word : arguments) {
            int equals = word.indexOf('=');
            String key = word.substring(0, equals);
            if (key.startsWith("config:")) config.put(key.substring(7), word.substring(equals + 1));
            else job.put(key, word.substring(equals + 1));
        }
        config.put("bootstrap.servers", job.get("bootstrap"));
        config.put("client.id", job.get("client_id"));
        try (Admin admin = Admin.create(config)) {
            clusterAndTopics(admin, job.get("topics").split(",")[0], job.get("topics").split(",")[1]);
            groups(admin, job.get("topics").split(",")[0], job.get("group"));
            security(admin);
            transactions(admin, job.get("topics").split(",")[0]);
            ask("deleteTopics", () -> admin.deleteTopics(List.of(job.get("topics").split(",")[1])).all());
        }
        StringBuilder failed = new StringBuilder();
        refused.forEach((name, count) -> failed.append(failed.length() == 0 ? "" : ",").append("\"" + name + "\":" + count));
        Files.writeString(Path.of(job.get("outcome")), "{\"library\":\"java\",\"version\":\"" + LabClient.version()
            + "\",\"records\":{},\"failed\":{" + failed + "},\"assignments\":0,\"commits\":0}");
    }

    private static void clusterAndTopics(Admin admin, String topic, String fresh) {
        TopicPartition first = new TopicPartition(topic, 0);
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        ConfigResource created = new ConfigResource(ConfigResource.Type.TOPIC, fresh);
        ask("describeCluster", () -> admin.describeCluster().nodes());
        ask("describeFeatures", () -> admin.describeFeatures().featureMetadata());
        ask("updateFeatures", () -> admin.updateFeatures(Map.of("metadata.version", new FeatureUpdate((short) 29, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions().validateOnly(true)).all());
        ask("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo());
        ask("createTopics", () -> admin.createTopics(List.of(new NewTopic(fresh, 2, (short) 2))).all());
        ask("createTopics", () -> admin.createTopics(List.of(new NewTopic(topic, 2, (short) 2))).all());
        ask("createPartitions", () -> admin.createPartitions(Map.of(fresh, NewPartitions.increaseTo(3))).all());
        ask("describeTopics", () -> admin.describeTopics(List.of(topic, fresh)).allTopicNames());
        ask("describeTopics", () -> admin.describeTopics(List.of("no-such-topic")).allTopicNames());
        ask("describeConfigs", () -> admin.describeConfigs(List.of(broker, created)).all());
        ask("incrementalAlterConfigs", () -> admin.incrementalAlterConfigs(Map.of(created, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET)))).all());
        ask("listConfigResources", () -> admin.listConfigResources().all());
        ask("describeLogDirs", () -> admin.describeLogDirs(List.of(1, 2, 3)).allDescriptions());
        ask("alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(topic, 0, 1), "/nowhere")).all());
        ask("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).all());
        ask("alterPartitionReassignments", () -> admin.alterPartitionReassignments(Map.of(new TopicPartition(fresh, 0), Optional.of(new NewPartitionReassignment(List.of(3, 1))))).all());
        ask("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments());
        ask("listOffsets", () -> admin.listOffsets(Map.of(first, OffsetSpec.latest())).all());
        ask("listOffsets", () -> admin.listOffsets(Map.of(first, OffsetSpec.maxTimestamp())).all());
        ask("deleteRecords", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(2))).all());
        ask("alterClientQuotas", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "nobody")), List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e6))))).all());
        ask("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        ask("unregisterBroker", () -> admin.unregisterBroker(99).all());
    }

    private static void groups(Admin admin, String topic, String group) {
        TopicPartition first = new TopicPartition(topic, 0);
        ask("listGroups", () -> admin.listGroups().all());
        ask("describeConsumerGroups", () -> admin.describeConsumerGroups(List.of(group)).all());
        ask("describeClassicGroups", () -> admin.describeClassicGroups(List.of(group)).all());
        ask("describeShareGroups", () -> admin.describeShareGroups(List.of("sharers")).all());
        ask("describeStreamsGroups", () -> admin.describeStreamsGroups(List.of("no-such-group")).all());
        ask("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(group).all());
        ask("listShareGroupOffsets", () -> admin.listShareGroupOffsets(Map.of("sharers", new ListShareGroupOffsetsSpec())).all());
        ask("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets("idle", Map.of(first, new OffsetAndMetadata(3))).all());
        ask("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets("idle", Set.of(first)).all());
        ask("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of("idle")).all());
        ask("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(group)).all());
        ask("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("sharers", Map.of(first, 0L)).all());
        ask("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets("sharers", Set.of(topic)).all());
    }

    private static void security(Admin admin) {
        AclBinding rule = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "secret", PatternType.LITERAL),
            new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
        ask("createAcls", () -> admin.createAcls(List.of(rule)).all());
        ask("describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values());
        ask("deleteAcls", () -> admin.deleteAcls(List.of(rule.toFilter())).all());
        ask("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("alice",
            new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "wonderland"))).all());
        ask("describeUserScramCredentials", () -> admin.describeUserScramCredentials().all());
        ask("createDelegationToken", () -> admin.createDelegationToken().delegationToken());
        ask("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens());
        ask("renewDelegationToken", () -> admin.renewDelegationToken(new byte[] {1, 2, 3}).expiryTimestamp());
        ask("expireDelegationToken", () -> admin.expireDelegationToken(new byte[] {1, 2, 3}).expiryTimestamp());
    }

    private static void transactions(Admin admin, String topic) {
        ask("listTransactions", () -> admin.listTransactions().all());
        ask("describeTransactions", () -> admin.describeTransactions(List.of("bank")).all());
        ask("describeProducers", () -> admin.describeProducers(List.of(new TopicPartition(topic, 0))).all());
        ask("fenceProducers", () -> admin.fenceProducers(List.of("bank")).all());
    }

    private static void ask(String name, Callable<KafkaFuture<?>> question) {
        try {
            question.call().get(20, TimeUnit.SECONDS);
        } catch (Exception refusal) {
            Throwable cause = refusal.getCause() == null ? refusal : refusal.getCause();
            System.out.println("LabAdmin " + name + ": " + cause);
            refused.merge(cause.getClass().getSimpleName(), 1, Integer::sum);
        }
    }
}
