import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.LegacyRecord;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.TimestampType;

/** Kafka's own record builder of 3.9, the last that writes magic 0 and 1: a line of JSON in, one out. */
public class Legacy {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.put("result", Base64.getEncoder().encodeToString(build(JSON.readTree(line))));
            } catch (Throwable thrown) {
                answer.put("error", thrown.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
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
