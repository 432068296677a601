// SPDX-License-Identifier: Apache-2.0
// npm's `redis`, as its documentation has it:  node node_redis.cjs SOCKET 2|3
"use strict";
const { createClient, RESP_TYPES } = require("redis");
const { say, within } = require("./said.cjs");

async function main(path, RESP) {
  const client = await createClient({ socket: { path }, RESP, name: "tests" })
    .on("error", (error) => {
      console.log(`error: ${error.message}`);
      process.exit(1);
    })
    .connect();
  await say("ping", client.ping());
  await say("name", client.clientGetName());
  await say("set", client.set("key", "value"));
  await say("get", client.get("key"));
  await say("nothing", client.get("nothing"));
  await say("nx", client.set("key", "other", { condition: "NX" }));
  await say("xx, get", client.set("key", "other", { condition: "XX", GET: true, expiration: { type: "EX", value: 100 } }));
  await say("ttl", client.ttl("key").then(within(90, 100)));
  await say("pttl", client.pTTL("key").then(within(90_000, 100_000)));
  await say("keepttl", client.set("key", "third", { expiration: "KEEPTTL" }));
  await say("ttl again", client.ttl("key").then(within(90, 100)));
  await say("mset", client.mSet({ a: "1", b: "2", c: "" }));
  await say("mget", client.mGet(["a", "b", "c", "nothing"]));
  await say("exists", client.exists(["a", "b", "nothing"]));
  await say("strlen", client.strLen("key"));
  await say("type", client.type("key"));
  const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, i) => (i * 7) & 0xff));
  await say("set bytes", client.set("bytes", bytes));
  await say("get bytes", client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }).get("bytes"));
  await say("in one turn", Promise.all(Array.from({ length: 500 }, (_, i) => client.set(`many:${i}`, `${i}`))).then((all) => all.length));
  await say("read in one turn", Promise.all(Array.from({ length: 500 }, (_, i) => client.get(`many:${i}`))).then((all) => all.every((value, i) => value === `${i}`)));
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: "many:*", COUNT: 50 })) for (const key of [keys].flat()) found.add(key);
  await say("scan", Promise.resolve(found.size));
  await say("dbsize", client.dbSize());
  await say("multi", client.multi().set("m", "1").incr("m").get("m").exec());
  await client.watch("m");
  await client.set("m", "1");
  await say("watched", client.multi().incr("m").exec().catch((error) => error.name));
  await say("wrong", client.sendCommand(["SET", "key"]));
  await say("unknown", client.sendCommand(["NONSENSE", "key"]));
  // In RESP3 the connection that listens may do all else, too.
  const listener = RESP === 3 ? client : await client.duplicate().connect();
  const heard = [];
  let wake = () => {};
  const until = async (count) => {
    while (heard.length < count) await new Promise((resolve) => (wake = resolve));
    return heard.splice(0).sort();
  };
  const hear = (kind) => (message, channel) => {
    heard.push(`${kind} ${channel} ${message.length > 80 ? message.length : message}`);
    wake();
  };
  await listener.subscribe(["news", "other"], hear("plain"));
  await listener.pSubscribe("n*", hear("pattern"));
  await listener.sSubscribe("news", hear("shard"));
  await say("publish", client.publish("news", "first"));
  await say("heard", until(2));
  await say("publish long", client.publish("other", "x".repeat(70_000)));
  await say("heard long", until(1));
  await say("publish to shard", client.sPublish("news", "second"));
  await say("heard of shard", until(1));
  await say("publish many", Promise.all(Array.from({ length: 500 }, (_, i) => client.publish("news", `${i}`))).then((all) => all.every((count) => count === 2)));
  await say("heard many", until(1000).then((all) => all.length));
  await say("channels", client.pubSubChannels().then((all) => all.sort()));
  await say("subscribers", client.pubSubNumSub(["news", "nothing"]).then((all) => Object.entries(all)));
  await say("patterns", client.pubSubNumPat());
  await listener.unsubscribe("news");
  await listener.pUnsubscribe("n*");
  await listener.sUnsubscribe("news");
  await say("publish to none", client.publish("news", "third"));
  await listener.unsubscribe("other");
  await say("ping again", listener.ping());
  if (listener !== client) await listener.close();
  await say("del", client.del(["a", "b", "c", "nothing"]));
  await say("unlink", client.unlink("key"));
  await client.close();
}

main(process.argv[2], Number(process.argv[3]));
