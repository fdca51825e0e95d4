import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producer, consumer and admin of one release, for Servant. */
public class Client {
    private static final ObjectMapper JSON = new ObjectMapper();

    static JsonNode answer(JsonNode call) throws Exception {
        Properties config = new Properties();
        call.get("config").fields().forEachRemaining(e -> config.put(e.getKey(), e.getValue().asText()));
        String op = call.get("op").asText();
        if (op.equals("produce")) {
            return produce(call, config);
        }
        if (op.equals("consume")) {
            return consume(call, config);
        }
        if (op.equals("request")) {
            return request(call, config.getProperty("bootstrap.servers"));
        }
        try (Admin admin = Admin.create(config)) {
            return administer(op, call, admin);
        }
    }

    private static JsonNode produce(JsonNode call, Properties config) throws Exception {
        config.putIfAbsent("linger.ms", "1000");
        config.putIfAbsent("delivery.timeout.ms", "60000");
        config.putIfAbsent("request.timeout.ms", "30000");
        config.putIfAbsent("max.block.ms", "60000");
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (config.containsKey("transactional.id")) {
                producer.initTransactions();
            }
            for (JsonNode step : call.get("steps")) {
                produceStep(call.get("topic").asText(), call.get("partition").asInt(), step, producer);
            }
        }
        return null;
    }

    private static void produceStep(String topic, int partition, JsonNode step,
                                    KafkaProducer<byte[], byte[]> producer) throws Exception {
        switch (step.get("do").asText()) {
            case "begin":
                producer.beginTransaction();
                break;
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            case "offsets":
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, partition), new OffsetAndMetadata(1, "from a transaction")),
                    new ConsumerGroupMetadata(step.get("argument").asText()));
                break;
            default:
                List<Future<?>> sent = new ArrayList<>();
                for (JsonNode record : step.get("records")) {
                    sent.add(producer.send(record(topic, partition, record)));
                }
                producer.flush();
                for (Future<?> one : sent) {
                    one.get();
                }
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int partition, JsonNode row) {
        List<Header> headers = new ArrayList<>();
        row.get("headers").forEach(h -> headers.add(new RecordHeader(h.get(0).asText(), bytes(h.get(1)))));
        Long timestamp = row.get("timestamp").isNull() ? null : (Long) row.get("timestamp").asLong();
        return new ProducerRecord<>(topic, partition, timestamp, bytes(row.get("key")), bytes(row.get("value")), headers);
    }

    private static JsonNode consume(JsonNode call, Properties config) {
        config.putIfAbsent("auto.offset.reset", "earliest");
        config.putIfAbsent("enable.auto.commit", "false");
        ArrayNode rows = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(call.get("topic").asText()));
            long deadline = System.currentTimeMillis() + 60_000;
            while (rows.size() < call.get("count").asInt() && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    rows.add(row(record));
                }
            }
            consumer.commitSync(Duration.ofSeconds(10));
        }
        return rows;
    }

    private static ObjectNode row(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode row = JSON.createObjectNode();
        row.put("key", text(record.key()));
        row.put("value", text(record.value()));
        row.put("timestamp", record.timestamp());
        ArrayNode headers = row.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return row;
    }

    /** Any request of the protocol: api, version and data as the generated JSON converters name them. */
    private static JsonNode request(JsonNode call, String bootstrap) throws Exception {
        String api = "org.apache.kafka.common.message." + call.get("api").asText();
        short version = (short) call.get("version").asInt();
        Message body = (Message) Class.forName(api + "RequestDataJsonConverter")
            .getMethod("read", JsonNode.class, short.class).invoke(null, call.get("data"), version);
        ApiKeys key = ApiKeys.forId(((ApiMessage) body).apiKey());
        ByteBuffer header = bytes(new RequestHeaderData().setRequestApiKey(key.id).setRequestApiVersion(version)
            .setClientId("kafkatool").setCorrelationId(1), key.requestHeaderVersion(version));
        ByteBuffer sent = bytes(body, version);
        String[] address = bootstrap.split(":");
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            out.writeInt(header.remaining() + sent.remaining());
            out.write(header.array(), 0, header.remaining());
            out.write(sent.array(), 0, sent.remaining());
            out.flush();
            DataInputStream in = new DataInputStream(socket.getInputStream());
            ByteBufferAccessor answer = new ByteBufferAccessor(ByteBuffer.wrap(in.readNBytes(in.readInt())));
            new ResponseHeaderData(answer, key.responseHeaderVersion(version));
            Class<?> type = Class.forName(api + "ResponseData");
            Object response = type.getConstructor(Readable.class, short.class).newInstance(answer, version);
            return (JsonNode) Class.forName(api + "ResponseDataJsonConverter")
                .getMethod("write", type, short.class).invoke(null, response, version);
        }
    }

    private static ByteBuffer bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.flip();
    }

    private static JsonNode administer(String op, JsonNode call, Admin admin) throws Exception {
        switch (op) {
            case "scram":
                admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(call.get("user").asText(),
                    new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))).all().get();
                return null;
            case "unscram":
                admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(call.get("user").asText(),
                    ScramMechanism.SCRAM_SHA_256))).all().get();
                return null;
            case "quota":
                Map<String, String> entity = new HashMap<>();
                call.get("entity").fields().forEachRemaining(e ->
                    entity.put(e.getKey(), e.getValue().isNull() ? null : e.getValue().asText()));
                Double limit = call.get("value").isNull() ? null : (Double) call.get("value").asDouble();
                admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity),
                    List.of(new ClientQuotaAlteration.Op(call.get("key").asText(), limit))))).all().get();
                return null;
            case "acl":
                admin.createAcls(List.of(acl(call))).all().get();
                return null;
            case "unacl":
                admin.deleteAcls(List.of(acl(call).toFilter())).all().get();
                return null;
            case "token":
                return JSON.getNodeFactory().textNode(admin.createDelegationToken(new CreateDelegationTokenOptions())
                    .delegationToken().get().tokenInfo().tokenId());
            case "untoken":
                for (var token : admin.describeDelegationToken().delegationTokens().get()) {
                    admin.expireDelegationToken(token.hmac()).expiryTimestamp().get();
                }
                return null;
            case "feature":
                short level = (short) call.get("level").asInt();
                admin.updateFeatures(Map.of(call.get("feature").asText(), new FeatureUpdate(level,
                    FeatureUpdate.UpgradeType.valueOf(call.path("type").asText("UPGRADE")))),
                    new UpdateFeaturesOptions()).all().get();
                return null;
            case "config":
                admin.incrementalAlterConfigs(Map.of(
                    new ConfigResource(ConfigResource.Type.valueOf(call.get("type").asText()), call.get("name").asText()),
                    alterations(call.get("configs")))).all().get();
                return null;
            case "move":
                admin.alterReplicaLogDirs(Map.of(
                    new TopicPartitionReplica(call.get("topic").asText(), call.get("partition").asInt(), 1),
                    call.get("dir").asText())).all().get();
                return null;
            case "deleteOffsets":
                admin.deleteConsumerGroupOffsets(call.get("group").asText(),
                    Set.of(new TopicPartition(call.get("topic").asText(), 0))).all().get();
                return null;
            case "deleteGroup":
                admin.deleteConsumerGroups(List.of(call.get("group").asText())).all().get();
                return null;
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private static Collection<AlterConfigOp> alterations(JsonNode configs) {
        List<AlterConfigOp> ops = new ArrayList<>();
        configs.fields().forEachRemaining(e -> ops.add(new AlterConfigOp(
            new ConfigEntry(e.getKey(), e.getValue().isNull() ? null : e.getValue().asText()),
            e.getValue().isNull() ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET)));
        return ops;
    }

    private static AclBinding acl(JsonNode call) {
        return new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, call.get("topic").asText(), PatternType.PREFIXED),
            new AccessControlEntry(call.get("user").asText(), "*", AclOperation.READ, AclPermissionType.ALLOW));
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
