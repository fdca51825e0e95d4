// Reads a topic as a member of a group and prints a line of JSON for every record, until none came for a while.
// node kafkajs_consumer.js BOOTSTRAP GROUP TOPIC COMMITTED IDLE_MS
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, groupId, topic, committed, idleMs] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "js", brokers: [bootstrap], logLevel: logLevel.ERROR });
const text = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString("base64"));

async function main() {
  const consumer = kafka.consumer({ groupId, readUncommitted: committed === "0", maxWaitTimeInMs: 300 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  let last = 0;
  consumer.on(consumer.events.GROUP_JOIN, () => { last = Date.now(); });
  consumer.on(consumer.events.CRASH, (event) => { console.error(event.payload.error); process.exit(1); });
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      last = Date.now();
      const { offset, timestamp, key, value } = message;
      console.log(JSON.stringify({ partition, offset, timestamp, key: text(key), value: text(value) }));
    },
  });
  while (last === 0 || Date.now() - last < Number(idleMs)) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await consumer.disconnect();
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
