// Reads a topic as a member of a group and prints a line of JSON for every record, until its input is closed.
// node kafkajs_consumer.js BOOTSTRAP GROUP TOPIC COMMITTED
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, groupId, topic, committed] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "js", brokers: [bootstrap], logLevel: logLevel.ERROR });
const text = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString("base64"));

async function main() {
  const consumer = kafka.consumer({ groupId, readUncommitted: committed === "0", maxWaitTimeInMs: 300 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  consumer.on(consumer.events.CRASH, (event) => { console.error(event.payload.error); process.exit(1); });
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      const { offset, timestamp, key, value } = message;
      console.log(JSON.stringify({ partition, offset, timestamp, key: text(key), value: text(value) }));
    },
  });
  await new Promise((resolve) => process.stdin.resume().on("end", resolve));
  await consumer.disconnect();
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
