import java.io.File;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** The log of a broker without the broker: its own class over a directory, at a time that the test names. */
public class BrokerLog {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Clock CLOCK = new Clock();
    private static UnifiedLog log;

    static JsonNode answer(JsonNode call) throws Exception {
        CLOCK.now = call.path("now").asLong(CLOCK.now);
        switch (call.get("op").asText()) {
            case "open":
                log = open(call);
                break;
            case "lead":
                log.assignEpochStartOffset(call.get("epoch").asInt(), log.logEndOffset());
                break;
            case "append":
                return append(call);
            case "roll":
                log.roll();
                break;
            case "truncate":
                log.truncateTo(call.get("offset").asLong());
                break;
            case "flush":
                log.flush(true);
                break;
            case "close":
                log.flush(true);
                log.close();
                break;
            default:
                throw new IllegalArgumentException(call.toString());
        }
        return JSON.createObjectNode().put("end", log.logEndOffset()).put("start", log.logStartOffset());
    }

    private static UnifiedLog open(JsonNode call) throws Exception {
        LogConfig config = new LogConfig(JSON.convertValue(call.get("config"), Map.class));
        return UnifiedLog.create(new File(call.get("directory").asText()), config,
            call.path("logStart").asLong(0), call.path("recoveryPoint").asLong(0),
            new AtOnce(), new BrokerTopicStats(), CLOCK, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1),
            call.path("clean").asBoolean(false), Optional.empty());
    }

    /** With an epoch as its leader, without one as a follower; what is refused is answered by its error code. */
    private static JsonNode append(JsonNode call) throws Exception {
        byte[] data = Base64.getDecoder().decode(call.get("data").asText());
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(data));
        try {
            LogAppendInfo info = call.hasNonNull("epoch")
                ? log.appendAsLeader(records, call.get("epoch").asInt())
                : log.appendAsFollower(records, Integer.MAX_VALUE);
            return JSON.createObjectNode().put("error", 0).put("first", info.firstOffset()).put("last", info.lastOffset());
        } catch (RuntimeException thrown) {
            RuntimeException refused = thrown instanceof RecordValidationException invalid
                ? invalid.invalidException() : thrown;
            return JSON.createObjectNode().put("error", Errors.forException(refused).code()).put("why", refused.toString());
        }
    }

    /** What a broker's other threads would do soon is done at once, what they would do later never. */
    private static final class AtOnce implements Scheduler {
        private final ScheduledExecutorService later = Executors.newSingleThreadScheduledExecutor(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });

        public void startup() { }

        public void shutdown() { }

        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (delayMs <= 0 && periodMs < 0) {
                task.run();
            }
            return later.schedule(() -> { }, 1, TimeUnit.DAYS);
        }

        public void resizeThreadPool(int size) { }
    }

    private static final class Clock implements Time {
        private long now = 0;

        public long milliseconds() {
            return now;
        }

        public long hiResClockMs() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long ms) {
            now += ms;
        }

        public void waitObject(Object object, java.util.function.Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }

        public org.apache.kafka.common.utils.Timer timer(long ms) {
            return Time.SYSTEM.timer(ms);
        }
    }
}
