#!/usr/bin/env python3
"""Copy topics from one address to another: same partitions, keys, values, headers, timestamps; new offsets.

    copy-topic.py FROM TO TOPIC[=NEW]... [--apply]

    copy-topic.py 127.0.0.1:9099 broker:9092 orders                            what would be copied
    copy-topic.py 127.0.0.1:9099 broker:9092 orders --apply                    copy it
    copy-topic.py 127.0.0.1:9099 broker:9092 orders=orders-restored --apply    under a new name

Copies all committed records, up to the end. The topics must exist at TO, with as many partitions, because
somebody has to choose their settings. They must be empty, because nobody could tell the copy from what was
there, and a second run would append everything again. Without --apply nothing is written.

Exit codes: 0 everything was copied and acknowledged; 3 it was not, or cannot be; 4 there is something to
--apply, or there are more records after a transaction that never ended; 5 a topic at TO is not empty. Needs
confluent-kafka.
"""

import sys

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)

WAIT_SECONDS = 30
READING = {
    "group.id": "copy-topic",
    "allow.auto.create.topics": False,
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "check.crcs": True,
}
COSTS = """What it costs: offsets are new, so what consumer groups have committed does not fit the copy, and
they start again, by time (kafka-consumer-groups.sh --reset-offsets --to-datetime). Records of committed
transactions become plain records, and aborted records are not copied. Producers start without their
sequences. A topic with LogAppendTime gives every record the time of the copy. If records are older than
retention.ms of the topic, the next check deletes them."""


def main():
    words = [word for word in sys.argv[1:] if word != "--apply"]
    if len(words) < 3:
        sys.exit(__doc__)
    source, target, *topics = words
    names = {old: new or old for old, _, new in (topic.partition("=") for topic in topics)}
    consumer = Consumer({"bootstrap.servers": source, **READING})
    places = {topic: sorted(partitions(consumer, topic)) for topic in names}
    refuse_what_is_not_empty(target, names, places)
    if "--apply" not in sys.argv:
        show(consumer, target, names, places)
        sys.exit(4)
    sys.exit(copy_all(consumer, target, names, places))


def copy_all(consumer, target, names, places):
    producer = Producer({"bootstrap.servers": target, "enable.idempotence": True})
    refused, left = 0, 0
    for topic, numbers in places.items():
        for number in numbers:
            partition = TopicPartition(topic, number, OFFSET_BEGINNING)
            counts = copy(consumer, producer, partition, names[topic])
            name = f"{topic}-{number}" + (f" to {names[topic]}" if names[topic] != topic else "")
            print("{}: {} records copied, {} refused, {} offsets left".format(name, *counts))
            refused, left = refused + counts[1], left + counts[2]
    consumer.close()
    return 3 if refused else 4 if left else 0


def partitions(consumer, topic):
    """Return the partitions of a topic. Asks for all topics: asking for one by name might create it."""
    known = consumer.list_topics(timeout=WAIT_SECONDS).topics.get(topic)
    if known is None or known.error:
        fail(f"{topic}: {known.error if known else 'there is no such topic'}")
    return known.partitions


def refuse_what_is_not_empty(target, names, places):
    """Check all targets before the first record is written: half of a copy is worse than none."""
    consumer = Consumer({"bootstrap.servers": target, **READING})
    for topic, name in names.items():
        known = partitions(consumer, name)
        if missing := [number for number in places[topic] if number not in known]:
            fail(f"{name}: at {target} it has {len(known)} partitions: {missing[0]} is not among them")
        for number in sorted(known):
            start, end = consumer.get_watermark_offsets(TopicPartition(name, number), timeout=WAIT_SECONDS)
            if end > start:
                count = 1 + max(*places[topic], len(known) - 1)
                fail(
                    f"{name}-{number}: is not empty at {target}: it has offsets {start} to {end - 1}. "
                    f"Nothing was copied. Create a new topic, and copy {topic} to it:\n"
                    f"    kafka-topics.sh --bootstrap-server {target} --create --topic {topic}-restored "
                    f"--partitions {count} --config retention.ms=-1\n"
                    f"    the same command with {topic}={topic}-restored",
                    5,
                )
    consumer.close()


def show(consumer, target, names, places):
    for topic, numbers in places.items():
        for number in numbers:
            place = TopicPartition(topic, number)
            start, end = consumer.get_watermark_offsets(place, timeout=WAIT_SECONDS)
            to = f"{names[topic]}-{number} at {target}"
            print(f"{topic}-{number}: up to {end - start} records, of offsets {start} to {end}, to {to}")
    print(COSTS)
    print("Nothing was copied; --apply does it. Nobody else may write to the topics during the copy.")


def copy(consumer, producer, partition, target):
    """Copy one partition; return the numbers of records sent and refused, and of offsets after the last."""
    name = f"{partition.topic}-{partition.partition}"
    copied, refused = 0, []
    consumer.assign([partition])
    while True:
        message = consumer.poll(WAIT_SECONDS)
        if message is None:
            fail(f"{name}: nothing for {WAIT_SECONDS} s, after {copied} records")
        elif not message.error():
            send(producer, target, message, refused)
            copied += 1
        elif message.error().code() == KafkaError._PARTITION_EOF:
            break
        else:
            fail(f"{name}: {message.error()}, after {copied} records")
    producer.flush()
    _start, end = consumer.get_watermark_offsets(partition, cached=True)
    return copied, len(refused), end - message.offset()


def send(producer, target, message, refused):
    """Send one record as it was; wait while the queue is full."""
    kind, time_ms = message.timestamp()
    record = {
        "partition": message.partition(),
        "key": message.key(),
        "value": message.value(),
        "headers": message.headers(),
        "timestamp": 0 if kind == TIMESTAMP_NOT_AVAILABLE else time_ms,
        "on_delivery": lambda error, _record: refused.append(error) if error else None,
    }
    while True:
        try:
            producer.produce(target, **record)
            producer.poll(0)
            return
        except BufferError:
            producer.poll(1)


def fail(why, code=3):
    print(why, file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
