# SPDX-License-Identifier: Apache-2.0
"""Unmodified clients of Redis at the door and at Debian's Redis: what they say of both is the same.

    /usr/bin/python3 -B tests/doors/clients_test.py build/bin/refractd build/bin/refract FOLDER

Those of npm are brought into FOLDER once, as tests/doors/clients/package-lock.json names them.
"""

import os
import shutil
import subprocess
import sys
import threading
import unittest

import redis
from door import PATIENCE_S, Door, Redis
from node import Programs

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")
FOLDER = ""


def comes_by_npm():
    try:
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=FOLDER,
            check=False,
            timeout=PATIENCE_S,
            stdout=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def brought():
    """The folder with npm's clients; None: there is no npm, or no network to bring them by."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None
    os.makedirs(FOLDER, exist_ok=True)
    lock = os.path.join(FOLDER, "package-lock.json")
    for name in os.listdir(HERE):
        if name != "package-lock.json":
            shutil.copy(os.path.join(HERE, name), FOLDER)
    with open(os.path.join(HERE, "package-lock.json"), "rb") as file:
        wanted = file.read()
    try:
        with open(lock, "rb") as file:
            is_there = file.read() == wanted and os.path.isdir(os.path.join(FOLDER, "node_modules"))
    except FileNotFoundError:
        is_there = False
    if not is_there:
        with open(lock, "wb") as file:
            file.write(wanted)
        if not comes_by_npm():
            os.remove(lock)
            return None
    return FOLDER


class OfNpm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = brought()
        if cls.folder is None:
            raise unittest.SkipTest("no npm here, or no network: scripts/setup check brings npm")

    def said(self, path, script, *words):
        done = subprocess.run(
            ["node", script, path, *words],
            cwd=self.folder,
            capture_output=True,
            timeout=PATIENCE_S,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def beside_redis(self, script, *words, errors):
        with Redis() as server:
            wanted = self.said(server.path, script, *words)
        self.assertGreater(wanted.count("\n"), 10, wanted)
        self.assertNotIn(": false", wanted)
        self.assertEqual(wanted.count(": error: "), errors, wanted)
        for shards in ("1", "3"):
            with Door("--server-shards", shards, "--doors-threads", "2") as door:
                self.assertEqual(self.said(door.path, script, *words), wanted)

    def test_redis_in_both_protocols(self):
        for protocol in ("2", "3"):
            self.beside_redis("node_redis.cjs", protocol, errors=2)

    def test_ioredis(self):
        self.beside_redis("ioredis.cjs", errors=2)


PARSERS = [redis.connection.PythonParser]
if redis.utils.HIREDIS_AVAILABLE:
    PARSERS.append(redis.connection.HiredisParser)


class OfDebian(unittest.TestCase):
    def client(self, path, parser):
        pool = redis.ConnectionPool(
            connection_class=redis.UnixDomainSocketConnection, path=path, parser_class=parser
        )
        return redis.Redis(connection_pool=pool)

    def test_both_parsers_are_there(self):
        self.assertEqual(len(PARSERS), 2, "scripts/setup test brings hiredis for Python")

    def test_redis_py_says_the_same_of_both(self):
        def said(path, parser):
            client = self.client(path, parser)
            return [
                client.ping(),
                client.set("key", b"\x00\r\n\xff", ex=100),
                client.get("key"),
                90 < client.ttl("key") <= 100,
                client.set("key", "v", nx=True),
                client.set("key", "v", xx=True, keepttl=True, get=True),
                90_000 < client.pttl("key") <= 100_000,
                client.mset({f"many:{i}": i for i in range(300)}),
                client.mget("many:7", "nothing", "many:9"),
                sorted(client.scan_iter(match="many:*", count=50)),
                client.exists("many:1", "many:2", "nothing"),
                client.pipeline(transaction=False).set("p", 1).get("p").delete("p").get("p").execute(),
                client.dbsize(),
                client.delete("many:1", "many:2", "nothing"),
                client.strlen("key"),
                client.type("key"),
            ]

        with Redis() as server, Door() as door, Door("--server-shards", "3") as shards:
            for parser in PARSERS:
                wanted = said(server.path, parser)
                self.assertEqual(said(door.path, parser), wanted)
                self.assertEqual(said(shards.path, parser), wanted)

    def test_redis_py_runs_transactions_in_both(self):
        def said(path, parser):
            client, other = self.client(path, parser), self.client(path, parser)
            client.mset({"from": 10, "to": 0, "text": "t"})
            replies = [
                client.pipeline().set("key", 1).incr("key").get("key").delete("key").get("key").execute()
            ]
            replies.append(client.pipeline().incr("text").get("text").execute(raise_on_error=False)[1])

            def move(pipe):
                value = int(pipe.get("from"))
                pipe.multi()
                pipe.set("from", value - 1)
                pipe.incr("to")

            replies.append(client.transaction(move, "from", "to"))
            with client.pipeline() as pipe:
                pipe.watch("from")
                other.incr("from")
                pipe.multi()
                pipe.incr("to")
                try:
                    replies.append(pipe.execute())
                except redis.WatchError:
                    replies.append("watched")
            with client.pipeline() as pipe:
                pipe.execute_command("nonsense")
                try:
                    replies.append(pipe.execute())
                except redis.ResponseError as error:
                    replies.append(str(error))
            replies.append(client.mget("from", "to"))
            # Clients that count, each as often as it takes.
            threads = [
                threading.Thread(
                    target=lambda: [self.client(path, parser).transaction(move, "from") for _ in range(20)]
                )
                for _ in range(3)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
            return [*replies, client.mget("from", "to")]

        with Redis() as server, Door("--server-shards", "3", "--doors-threads", "2") as door:
            for parser in PARSERS:
                wanted = said(server.path, parser)
                self.assertEqual(wanted[-1], [b"-50", b"61"])
                self.assertEqual(said(door.path, parser), wanted)

    def test_redis_py_hears_the_same_of_both(self):
        def heard(path, parser):
            client = self.client(path, parser)
            listener = client.pubsub()
            own = []
            listener.subscribe("news", **{"handled": own.append})
            listener.psubscribe("n*")
            counts = [client.publish("news", b"\x00\r\n"), client.publish("handled", "x" * 70_000)]
            counts.append(client.publish("nothing", ""))
            listener.ping("word")
            came = [None]
            # None is told where a handler has taken it.
            while came[-1] is None or came[-1]["type"] != "pong":
                came.append(listener.get_message(timeout=PATIENCE_S))
            counts += [client.pubsub_numpat(), sorted(client.pubsub_channels())]
            counts += client.pubsub_numsub("news", "nothing")
            listener.unsubscribe()
            listener.punsubscribe("n*")
            while listener.subscribed:
                came.append(listener.get_message(timeout=PATIENCE_S))
            counts.append(client.publish("news", "x"))
            listener.close()
            # Names have no order in which they are left, and each confirmation counts those that stay.
            left = [one for one in came if one is not None and one["type"] == "unsubscribe"]
            counts += [sorted(one["channel"] for one in left), sorted(one["data"] for one in left)]
            return sorted(str(one) for one in came if one not in left), own, counts

        with Redis() as server, Door("--doors-threads", "2") as door:
            for parser in PARSERS:
                self.assertEqual(heard(door.path, parser), heard(server.path, parser))

    def test_redis_py_reads_what_tools_ask_for(self):
        with Door("--doors-threads", "2") as door:
            client = self.client(door.path, PARSERS[-1])
            client.set("key", "value", ex=1000)
            info = client.info()
            self.assertEqual(info["redis_version"], "7.0.15")
            self.assertEqual(info["db0"], {"keys": 1, "expires": 1, "avg_ttl": 0})
            self.assertGreater(info["used_memory"], 0)
            self.assertEqual(client.info("keyspace"), {"db0": info["db0"]})
            client.client_setname("me")
            (line,) = client.client_list()
            self.assertEqual((line["name"], line["id"]), ("me", str(client.client_id())))
            self.assertEqual(client.client_info()["cmd"], "client|info")
            self.assertEqual(client.client_kill_filter(_id=10**9), 0)
            self.assertEqual(client.config_get("slowlog-max-len"), {"slowlog-max-len": "128"})
            self.assertTrue(client.config_set("slowlog-log-slower-than", 0))
            client.get("key")
            self.assertEqual(client.slowlog_get(1)[0]["command"], b"GET key")
            self.assertTrue(client.slowlog_reset())
            self.assertGreater(client.memory_usage("key"), len("key") + len("value"))
            self.assertEqual(client.object("encoding", "key"), b"embstr")
            self.assertEqual(client.command_count(), len(client.command()))
            self.assertEqual(client.command()["mset"]["step_count"], 2)
            self.assertEqual(client.command_getkeys("MSET", "a", 1, "b", 2), ["a", "b"])
            self.assertEqual(client.wait(0, 10), 0)
            self.assertEqual(len(client.time()), 2)

    def test_a_cache_of_key_value_tensors_works_as_with_redis(self):
        """What LMCache's connector sends: metadata and bytes of a chunk under two keys."""
        chunk = os.urandom(2 << 20)
        with Door("--server-shards", "2") as door:

            def fill(number):
                client = self.client(door.path, PARSERS[-1])
                for i in range(8):
                    name = f"model@1@0@{number:x}{i:x}"
                    self.assertFalse(client.exists(name + "metadata"))
                    client.set(name + "kv_bytes", chunk[i:])
                    client.set(name + "metadata", b"%d" % i)

            threads = [threading.Thread(target=fill, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
            client = self.client(door.path, PARSERS[-1])
            cursor, names = 0, set()
            while True:
                cursor, page = client.scan(cursor=cursor, match="model@*metadata")
                names.update(page)
                if cursor == 0:
                    break
            self.assertEqual(len(names), 32)
            for name in names:
                at = int(client.get(name))
                self.assertTrue(client.exists(name))
                self.assertEqual(client.get(name[: -len(b"metadata")] + b"kv_bytes"), chunk[at:])


if __name__ == "__main__":
    Programs.refractd, Programs.refract, FOLDER = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
