#!/usr/bin/env python3
"""Copy topics from one address to another: same partitions, keys, values, headers, timestamps; new offsets.

    copy-topic.py FROM TO TOPIC...        say, copy-topic.py 127.0.0.1:9099 broker:9092 orders

Copies what is committed, up to the end. The topics must exist at TO with as many partitions: somebody has to
choose their settings. Prints a line a partition. Exit codes: 0 everything was copied and acknowledged; 3 it
was not; 4 there was more, behind a transaction that never ended. Needs confluent-kafka.
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
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "check.crcs": True,
}


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    source, target, *topics = sys.argv[1:]
    consumer = Consumer({"bootstrap.servers": source, **READING})
    producer = Producer({"bootstrap.servers": target, "enable.idempotence": True})
    refused, left = 0, 0
    for topic in topics:
        for number in sorted(partitions(consumer, topic)):
            counts = copy(consumer, producer, TopicPartition(topic, number, OFFSET_BEGINNING))
            print("{}-{}: {} records copied, {} refused, {} offsets left".format(topic, number, *counts))
            refused, left = refused + counts[1], left + counts[2]
    consumer.close()
    sys.exit(3 if refused else 4 if left else 0)


def partitions(consumer, topic):
    known = consumer.list_topics(topic, timeout=WAIT_SECONDS).topics[topic]
    if known.error:
        fail(f"{topic}: {known.error}")
    return known.partitions


def copy(consumer, producer, partition):
    """One partition: how many records were sent, how many refused, how many offsets lie behind the last."""
    name = f"{partition.topic}-{partition.partition}"
    copied, refused = 0, []
    consumer.assign([partition])
    while True:
        message = consumer.poll(WAIT_SECONDS)
        if message is None:
            fail(f"{name}: nothing for {WAIT_SECONDS} s, behind {copied} records")
        elif not message.error():
            send(producer, message, refused)
            copied += 1
        elif message.error().code() == KafkaError._PARTITION_EOF:
            break
        else:
            fail(f"{name}: {message.error()}, behind {copied} records")
    producer.flush()
    _start, end = consumer.get_watermark_offsets(partition, cached=True)
    return copied, len(refused), end - message.offset()


def send(producer, message, refused):
    """One record as it was; where the queue is full, wait."""
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
            producer.produce(message.topic(), **record)
            producer.poll(0)
            return
        except BufferError:
            producer.poll(1)


def fail(why):
    print(why, file=sys.stderr)
    sys.exit(3)


if __name__ == "__main__":
    main()
