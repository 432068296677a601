// SPDX-License-Identifier: Apache-2.0
// npm's `ioredis`, as its documentation has it:  node ioredis.cjs SOCKET
"use strict";
const Redis = require("ioredis");
const { say, within } = require("./said.cjs");

async function main(path) {
  // It asks INFO whether the server is still loading before it sends anything else.
  const client = new Redis({ path, connectionName: "tests", retryStrategy: null });
  await say("ping", client.ping());
  await say("set", client.set("key", "value", "EX", 100));
  await say("get", client.get("key"));
  await say("ttl", client.ttl("key").then(within(90, 100)));
  await say("nothing", client.get("nothing"));
  await say("nx", client.set("key", "other", "NX"));
  await say("mset", client.mset({ a: "1", b: "2" }));
  await say("mget", client.mget("a", "nothing", "b"));
  const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, i) => (i * 11) & 0xff));
  await say("set bytes", client.set("bytes", bytes));
  await say("get bytes", client.getBuffer("bytes"));
  const pipeline = client.pipeline();
  for (let i = 0; i < 300; ++i) pipeline.set(`many:${i}`, i).get(`many:${i}`);
  await say("pipeline", pipeline.exec().then((all) => all.every(([error, value], i) => error === null && (i % 2 ? value === `${i >> 1}` : value === "OK"))));
  const found = new Set();
  for await (const keys of client.scanStream({ match: "many:*", count: 50 })) for (const key of keys) found.add(key);
  await say("scan", Promise.resolve(found.size));
  await say("multi", client.multi().set("m", 1).incr("m").get("m").exec());
  await client.watch("m");
  await say("watched", client.multi().incr("m").exec());
  await client.watch("m");
  await client.set("m", 1);
  await say("changed", client.multi().incr("m").exec());
  const listener = client.duplicate();
  const heard = [];
  let wake = () => {};
  const until = async (count) => {
    while (heard.length < count) await new Promise((resolve) => (wake = resolve));
    return heard.splice(0).sort();
  };
  listener.on("message", (channel, message) => (heard.push(`plain ${channel} ${message}`), wake()));
  listener.on("pmessage", (pattern, channel, message) => (heard.push(`${pattern} ${channel} ${message}`), wake()));
  await say("subscribe", listener.subscribe("news", "other"));
  await say("psubscribe", listener.psubscribe("n*"));
  await say("publish", client.publish("news", "first"));
  await say("heard", until(2));
  await say("in the wrong mode", listener.call("GET", "key"));
  await say("unsubscribe", listener.unsubscribe("news", "other"));
  await say("punsubscribe", listener.punsubscribe("n*"));
  await say("get again", listener.get("key"));
  await say("end", listener.quit());
  await say("wrong", client.call("SET", "key"));
  await say("del", client.del("a", "b", "nothing"));
  await say("quit", client.quit());
}

main(process.argv[2]);
