import java.nio.ByteBuffer;
import java.util.Base64;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.TextNode;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.LegacyRecord;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.TimestampType;

/** Kafka's own record builder of 3.9, the last that writes magic 0 and 1, for Servant. */
public class Legacy {
    static JsonNode answer(JsonNode call) throws Exception {
        return TextNode.valueOf(Base64.getEncoder().encodeToString(build(call)));
    }

    /** magic, codec, offset (of the first record), appendTime (or null), records of [timestamp, key, value]. */
    private static byte[] build(JsonNode call) throws Exception {
        byte magic = (byte) call.get("magic").asInt();
        CompressionType codec = CompressionType.forName(call.get("codec").asText());
        boolean appendTime = !call.get("appendTime").isNull();
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
            : appendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), magic,
            Compression.of(codec).build(), type, call.get("offset").asLong(),
            appendTime ? call.get("appendTime").asLong() : -1);
        byte inner = (byte) call.path("innerMagic").asInt(magic);
        long offset = call.get("offset").asLong();
        for (JsonNode record : call.get("records")) {
            if (inner != magic) {
                // An old cleaner left messages of another magic inside a wrapper (KAFKA-4298).
                builder.appendUncheckedWithOffset(offset, LegacyRecord.create(inner, record.get(0).asLong(),
                    bytes(record.get(1)), bytes(record.get(2))));
            } else {
                builder.appendWithOffset(offset, record.get(0).asLong(), bytes(record.get(1)), bytes(record.get(2)));
            }
            offset += call.path("step").asInt(1);
        }
        ByteBuffer buffer = builder.build().buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }
}
