import java.time.Duration;
import java.util.List;
import java.util.Properties;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.IntNode;

import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Group members that only clients of 4.x can be, for Servant. */
public class Groups {
    static JsonNode answer(JsonNode call) {
        return IntNode.valueOf(run(call));
    }

    private static int run(JsonNode call) {
        Properties config = new Properties();
        config.put("bootstrap.servers", call.get("bootstrap").asText());
        config.put("group.id", call.get("group").asText());
        switch (call.get("op").asText()) {
            case "share":
                return share(call, config);
            case "regex":
                return regex(call, config);
            case "migrate":
                return migrate(call, config);
            default:
                throw new IllegalArgumentException();
        }
    }

    /** Accepts, releases and rejects in turn, so that the state has gaps. */
    private static int share(JsonNode call, Properties config) {
        config.put("share.acknowledgement.mode", "explicit");
        AcknowledgeType[] types = {AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT};
        int seen = 0;
        try (KafkaShareConsumer<byte[], byte[]> consumer =
                new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(call.get("topic").asText()));
            long deadline = System.currentTimeMillis() + 25_000;
            while (seen < call.get("count").asInt() && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    consumer.acknowledge(record, types[seen++ % types.length]);
                }
                consumer.commitSync(Duration.ofSeconds(5));
            }
        }
        return seen;
    }

    private static int regex(JsonNode call, Properties config) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(config, "consumer", "regex-member")) {
            consumer.subscribe(new SubscriptionPattern(call.get("topic").asText()));
            return poll(consumer, call.get("count").asInt());
        }
    }

    /** A member of the classic protocol and one of the new in one group: the group is converted. */
    private static int migrate(JsonNode call, Properties config) {
        try (KafkaConsumer<byte[], byte[]> classic = consumer(config, "classic", "classic-member")) {
            classic.subscribe(List.of(call.get("topic").asText()));
            int seen = poll(classic, call.get("count").asInt());
            try (KafkaConsumer<byte[], byte[]> modern = consumer(config, "consumer", "new-member")) {
                modern.subscribe(List.of(call.get("topic").asText()));
                long deadline = System.currentTimeMillis() + 8_000;
                while (System.currentTimeMillis() < deadline) {
                    modern.poll(Duration.ofMillis(200));
                    classic.poll(Duration.ofMillis(200));
                }
            }
            return seen;
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Properties group, String protocol, String instance) {
        Properties config = new Properties();
        config.putAll(group);
        config.put("group.protocol", protocol);
        config.put("client.id", instance);
        config.put("client.rack", "rack");
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static int poll(KafkaConsumer<byte[], byte[]> consumer, int count) {
        int seen = 0;
        long deadline = System.currentTimeMillis() + 20_000;
        while (seen < count && System.currentTimeMillis() < deadline) {
            seen += consumer.poll(Duration.ofMillis(200)).count();
        }
        consumer.commitSync(Duration.ofSeconds(10));
        return seen;
    }
}
