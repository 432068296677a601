# SPDX-License-Identifier: Apache-2.0
"""The door for Redis clients, beside Debian's Redis where both can be asked.

    /usr/bin/python3 -B tests/doors/redis_test.py build/bin/refractd build/bin/refract
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from door import (
    PATIENCE_S,
    Connection,
    Door,
    Redis,
    children_of,
    redis_cli,
    request,
    secret_in,
    until_connected,
)
from node import Node, Programs, clean_environment

SEED = int(os.environ.get("REFRACT_DOOR_SEED", random.SystemRandom().randrange(1 << 32)))
ROUNDS = int(os.environ.get("REFRACT_DOOR_ROUNDS", 1500))

TIMES = {b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"}


class Commands:
    """Chance commands over few keys, so that they meet."""

    def __init__(self, chance):
        self.chance = chance

    def key(self):
        return self.chance.choice([b"a", b"b", b"c", b"d:%d" % self.chance.randrange(4), b"\x00\r\n\xff"])

    def value(self):
        kind = self.chance.randrange(8)
        if kind == 0:
            return b""
        if kind == 1:
            return bytes(self.chance.randrange(256) for _ in range(self.chance.randrange(40)))
        if kind == 2:
            return b"v" * self.chance.choice([1000, 5000, 40_000])
        return str(self.chance.randrange(-100, 100)).encode()

    def options(self):
        chance = self.chance
        words = []
        for _ in range(chance.randrange(3)):
            words += chance.choice(
                [
                    [b"NX"],
                    [b"xx"],
                    [b"GET"],
                    [b"KEEPTTL"],
                    [b"EX", b"100"],
                    [b"px", b"100000"],
                    [b"EX", b"0"],
                    [b"EX", b"-1"],
                    [b"EX", b"x"],
                    [b"PX"],
                    [b"EXAT", b"5000000000"],
                    [b"pxat", b"5000000000000"],
                    [b"EX", b"9223372036854775807"],
                    [b"nonsense"],
                ]
            )
        return words

    def next(self):
        chance = self.chance
        keys = [self.key() for _ in range(1 + chance.randrange(4))]
        return chance.choice(
            [
                lambda: [b"GET", self.key()],
                lambda: [b"get", self.key()],
                lambda: [b"SET", self.key(), self.value()],
                lambda: [b"SET", self.key(), self.value(), *self.options()],
                lambda: [b"DEL", *keys],
                lambda: [b"UNLINK", *keys],
                lambda: [b"EXISTS", *keys],
                lambda: [b"TOUCH", *keys],
                lambda: [b"MGET", *keys],
                lambda: [b"MSET", *(word for key in keys for word in (key, self.value()))],
                lambda: [b"MSET", self.key(), self.value(), self.key()],
                lambda: [b"STRLEN", self.key()],
                lambda: [b"TYPE", self.key()],
                lambda: [chance.choice(sorted(TIMES)), self.key()],
                lambda: [b"DBSIZE"],
                lambda: [b"PING"],
                lambda: [b"PING", self.value()],
                lambda: [b"ECHO", self.value()],
                lambda: [b"SELECT", chance.choice([b"0", b"x", b"99999999999999999999"])],
                lambda: [b"GET"],
                lambda: [b"SET", b"a"],
                lambda: [b"PING", b"a", b"b"],
                lambda: [b"dbsize", b"x"],
                lambda: [b"nonsense", self.value()[:200], b"x"],
                lambda: [b"AUTH", b"x"],
                lambda: [b"AUTH", b"default", b"x"],
                lambda: [b"AUTH", b"a", b"b"],
            ]
        )()


class Meeting(Commands):
    """Of two keys, by all ways that a value takes: together with others, alone, in pieces, behind a read."""

    def key(self):
        return self.chance.choice([b"a", b"b"])

    def next(self):
        chance = self.chance
        value = b"%d" % chance.randrange(100) * chance.choice([1, 1, 1, 1500, 20_000])
        return chance.choice(
            [
                lambda: [b"SET", self.key(), value],
                lambda: [b"SET", self.key(), value],
                lambda: [b"SET", self.key(), value, b"EX", b"100"],
                lambda: [b"SET", self.key(), value, chance.choice([b"NX", b"XX", b"GET", b"KEEPTTL"])],
                lambda: [b"GET", self.key()],
                lambda: [b"TTL", self.key()],
                lambda: [b"DEL", self.key()],
                lambda: [b"MSET", b"a", value, b"b", value],
                lambda: [b"MGET", b"a", b"b"],
            ]
        )()


class Differential(unittest.TestCase):
    def run_beside_redis(self, *flags, commands_of=Commands):
        """Every reply is the same, byte by byte, however the stream is cut."""
        chance = random.Random(SEED)
        commands = commands_of(chance)
        with Door(*flags) as door, Redis() as redis:
            for protocol in (2, 3):
                with door.connect() as ours, redis.connect() as theirs:
                    if protocol == 3:
                        for one in (ours, theirs):
                            one.ask("HELLO", "3")
                    done = 0
                    while done < ROUNDS:
                        batch = [commands.next() for _ in range(1 + chance.randrange(20))]
                        data = b"".join(request(*words) for words in batch)
                        theirs.send(data)
                        while data:
                            cut = chance.randrange(1, 400) if chance.random() < 0.2 else len(data)
                            ours.send(data[:cut])
                            data = data[cut:]
                        for words in batch:
                            wanted, got = theirs.reply(), ours.reply()
                            if (
                                words[0] in TIMES
                                and not wanted.startswith(b":-")
                                and not got.startswith(b":-")
                            ):
                                # Both have one: when each was set differs, and how long ago.
                                got = wanted
                            done += 1
                            self.assertEqual(
                                got,
                                wanted,
                                f"{[word[:40] for word in words]!r}, RESP{protocol}; "
                                f"REFRACT_DOOR_SEED={SEED} {' '.join(flags)}",
                            )

    def test_replies_are_those_of_redis(self):
        self.run_beside_redis()

    def test_commands_of_one_connection_take_effect_in_their_order(self):
        self.run_beside_redis(commands_of=Meeting)
        self.run_beside_redis("--server-shards", "3", commands_of=Meeting)

    def test_replies_of_a_node_with_four_shards_are_those_of_redis(self):
        self.run_beside_redis("--server-shards", "4")

    def test_replies_of_a_node_with_a_log_are_those_of_redis(self):
        with_log = os.path.join("/tmp", f"refract-door-log-{os.getpid()}")
        try:
            self.run_beside_redis(
                "--data-durability", "always", "--data-folder", with_log, "--doors-threads", "2"
            )
        finally:
            shutil.rmtree(with_log, ignore_errors=True)

    def test_lines_and_what_is_no_request_are_answered_as_redis_does(self):
        with Door() as door, Redis() as redis:
            for data in (
                b"PING\r\n",
                b"  set  line 'a b'  \r\nget line\n",
                b"set line \"\\x41\\n\"\r\nget line\r\n",
                b"set line \"a\r\n",
                b"*x\r\n",
                b"*1\r\n+OK\r\n",
                b"*1\r\n$-1\r\n",
                b"*1\r\n$x\r\n",
                b"\r\n\r\nPING\r\n",
                b"*0\r\n*-1\r\nPING\r\n",
                b"x" * 70_000,
            ):
                said = []
                for one in (door.connect(), redis.connect()):
                    with one:
                        one.send(data)
                        one.socket.shutdown(1)
                        text = b""
                        try:
                            while piece := one.socket.recv(1 << 16):
                                text += piece
                        except ConnectionResetError:
                            pass
                        said.append(text)
                self.assertEqual(said[0], said[1], data[:80])

    def test_what_is_told_of_the_node_is_told_in_the_form_of_redis(self):
        with Door() as door, door.connect() as one:
            two = one.ask("HELLO")
            self.assertTrue(
                two.startswith(b"*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n"),
                two,
            )
            three = one.ask("HELLO", "3", "SETNAME", "me")
            self.assertTrue(three.startswith(b"%7\r\n"), three)
            self.assertEqual(one.ask("CLIENT", "GETNAME"), b"$2\r\nme\r\n")
            self.assertEqual(one.ask("CLIENT", "SETINFO", "LIB-NAME", "x"), b"+OK\r\n")
            self.assertRegex(one.ask("CLIENT", "ID"), rb":\d+\r\n")
            self.assertEqual(one.ask("HELLO", "4"), b"-NOPROTO unsupported protocol version\r\n")
            self.assertEqual(
                one.ask("CONFIG", "GET", "appendonly"), b"%1\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"
            )
            self.assertIn(b"keyspace_hits", one.ask("INFO", "stats"))
            self.assertNotIn(b"# Server", one.ask("INFO", "stats"))
            rows = one.ask("COMMAND", "COUNT")
            self.assertTrue(one.ask("COMMAND").startswith(b"*" + rows[1:]))
            self.assertEqual(
                one.ask("COMMAND", "INFO", "get")[:30], b"*1\r\n*10\r\n$3\r\nget\r\n:2\r\n~2\r\n+rea"
            )

    def test_a_scan_finds_every_key_once(self):
        for shards in ("1", "3"):
            with Door("--server-shards", shards) as door, door.connect() as one:
                wanted = {b"key:%d" % i for i in range(2000)}
                one.send(b"".join(request("SET", key, "v") for key in wanted))
                for _ in wanted:
                    self.assertEqual(one.reply(), b"+OK\r\n")
                found, cursor = [], b"0"
                while True:
                    one.send(request("SCAN", cursor, "MATCH", "key:*", "COUNT", 100))
                    parts = one.reply().split(b"\r\n")
                    cursor = parts[2]
                    found += parts[5::2]
                    if cursor == b"0":
                        break
                found = [key for key in found if key]
                self.assertEqual(len(found), len(wanted))
                self.assertEqual(set(found), wanted)
                self.assertEqual(
                    one.ask("SCAN", "0", "MATCH", "nothing"),
                    b"*2\r\n$%d\r\n%s\r\n*0\r\n" % (len(parts := one_cursor(one)), parts),
                )
                self.assertEqual(one.ask("SCAN", "x"), b"-ERR invalid cursor\r\n")
                self.assertEqual(one.ask("SCAN", "0", "COUNT", "0"), b"-ERR syntax error\r\n")


def one_cursor(connection):
    """That behind the first page of ten keys."""
    return connection.ask("SCAN", "0", "MATCH", "nothing").split(b"\r\n")[2]


class Peers(unittest.TestCase):
    def test_redis_cli_and_the_command_line_see_the_same_keys(self):
        with Door() as door:
            self.assertEqual(redis_cli(door, "set", "greeting", "hello"), "OK\n")
            self.assertEqual(door.run("get", "greeting").stdout, b"hello")
            self.assertEqual(door.run("put", "back", "again").returncode, 0)
            self.assertEqual(redis_cli(door, "get", "back"), "again\n")
            self.assertEqual(redis_cli(door, "-3", "exists", "back", "greeting", "nothing"), "2\n")
            by_path = subprocess.run(
                ["redis-cli", "-s", door.path, "get", "back"],
                capture_output=True,
                check=True,
                timeout=PATIENCE_S,
                text=True,
            ).stdout
            self.assertEqual(by_path, "again\n")

    def test_redis_benchmark_runs(self):
        with Door() as door:
            for pipeline in ("1", "16"):
                done = subprocess.run(
                    [
                        "redis-benchmark",
                        "-p",
                        str(door.port),
                        "-t",
                        "set,get,mset",
                        "-n",
                        "5000",
                        "-P",
                        pipeline,
                        "-r",
                        "1000",
                        "-q",
                    ],
                    capture_output=True,
                    check=True,
                    timeout=PATIENCE_S,
                    text=True,
                )
                self.assertEqual(done.stdout.count("requests per second"), 3, done.stdout + done.stderr)
                self.assertNotIn("rror", done.stdout + done.stderr)


class Deaths(unittest.TestCase):
    def test_reads_go_on_while_the_server_is_stopped(self):
        with Door() as door, door.connect() as one, door.connect() as other:
            self.assertEqual(one.ask("SET", "k", "v"), b"+OK\r\n")
            with door.stopped_server():
                self.assertEqual(one.ask("GET", "k"), b"$1\r\nv\r\n")
                other.send(request("SET", "k", "w") + request("GET", "k"))
                self.assertEqual(one.ask("MGET", "k", "none"), b"*2\r\n$1\r\nv\r\n$-1\r\n")
            self.assertEqual(other.reply(), b"+OK\r\n")
            self.assertEqual(
                other.reply(), b"$1\r\nw\r\n", "a read waits for the writes of its own connection"
            )

    def test_an_mset_whose_end_is_not_known_ends_its_connection_and_no_other(self):
        self.run_kills()

    def test_the_same_with_a_log_and_two_shards(self):
        with tempfile.TemporaryDirectory(prefix="refract-kills-") as folder:
            self.run_kills(
                "--server-shards", "2", "--data-durability", "everysec", "--data-folder", folder + "/log"
            )

    def run_kills(self, *flags):
        with Door(*flags) as door, door.connect() as reader:
            acknowledged, wrong, is_over = {}, [], threading.Event()

            def write(number):
                one, count = door.connect(), 0
                while not is_over.is_set():
                    try:
                        # The ECHO needs no server: its reply must not come where that of its MSET is missing.
                        one.send(
                            b"".join(
                                request("MSET", f"k{number}", count + i) + request("ECHO", count + i)
                                for i in range(1, 9)
                            )
                        )
                        for i in range(1, 9):
                            self.assertEqual(one.reply(), b"+OK\r\n")
                            self.assertEqual(one.reply().split(b"\r\n")[1], b"%d" % (count + i))
                            acknowledged[number] = count + i
                    except ConnectionError:
                        # What became of those in flight is not known: they have no numbers.
                        one.socket.close()
                        one = door.connect()
                    except AssertionError as error:
                        wrong.append(error)
                        return
                    count += 8

            writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
            for writer in writers:
                writer.start()
            for _ in range(5):
                time.sleep(0.1)
                before = dict(acknowledged)
                os.kill(door.server(), signal.SIGKILL)
                for number, count in before.items():
                    self.assertGreaterEqual(int(reader.ask("GET", f"k{number}").split(b"\r\n")[1]), count)
            time.sleep(0.1)
            is_over.set()
            for writer in writers:
                writer.join(PATIENCE_S)
            self.assertEqual(wrong, [])
            self.assertEqual(len(acknowledged), 4)
            for number, count in acknowledged.items():
                self.assertGreaterEqual(int(reader.ask("GET", f"k{number}").split(b"\r\n")[1]), count)

    def test_doors_that_are_killed_come_back_and_the_node_goes_on(self):
        with Door() as door:
            for _ in range(3):
                doors = door.doors()
                with door.connect() as one:
                    self.assertEqual(one.ask("SET", "k", "v"), b"+OK\r\n")
                    server = door.server()
                    os.kill(doors, signal.SIGKILL)
                    self.assertTrue(one.is_at_its_end())
                self.assertEqual(door.run("get", "k").stdout, b"v")
                # It waits in the backlog for the next process.
                with door.connect() as one:
                    self.assertEqual(one.ask("GET", "k"), b"$1\r\nv\r\n")
                self.assertNotEqual(door.doors(), doors)
                self.assertEqual(door.server(), server)

    def test_a_node_that_is_loading_says_so(self):
        with tempfile.TemporaryDirectory(prefix="refract-loading-") as folder:
            flags = ["--data-durability", "everysec", "--data-folder", os.path.join(folder, "data")]
            # So much that its server is stopped in the middle of it.
            with Door(*flags) as door, door.connect() as one:
                for begin in range(0, 200_000, 10_000):
                    one.send(
                        b"".join(
                            request("MSET", *range(i, i + 100)) for i in range(begin, begin + 10_000, 100)
                        )
                    )
                    for _ in range(100):
                        self.assertEqual(one.reply(), b"+OK\r\n")
            # Where it was too quick, the next one may not be.
            for _ in range(20):
                if self.sees_a_node_that_is_loading(folder, flags):
                    return
        self.fail("20 servers served before they were stopped")

    def sees_a_node_that_is_loading(self, folder, flags):
        loading = b"-LOADING Redis is loading the dataset in memory\r\n"
        path = os.path.join(folder, "redis.sock")
        node = subprocess.Popen(
            [Programs.refractd, "--socket-path", os.path.join(folder, "node.sock")]
            + ["--doors-listen", f"redis:{path}", "--doors-threads", "2", *flags],
            stdout=subprocess.PIPE,
            env=clean_environment(),
        )
        try:
            # It is the first child; the doors follow.
            while not (children := children_of(node.pid)):
                pass
            os.kill(min(children), signal.SIGSTOP)
            with until_connected(path) as one:
                # What it may have said before it was stopped is heard by then.
                one.ask("PING")
                time.sleep(0.2)
                if (said := one.ask("PING")) == b"+PONG\r\n":
                    return False
                self.assertEqual(said, loading)
                self.assertEqual(one.ask("GET", "k"), loading)
                self.assertEqual(one.ask("SET", "k", "v"), loading)
                self.assertIn(b"\r\nloading:1\r\n", one.ask("INFO", "persistence"))
                self.assertEqual(one.ask("CLIENT", "SETNAME", "me"), b"+OK\r\n")
                self.assertIn(b" name=me ", one.ask("CLIENT", "LIST"))
                self.assertEqual(one.ask("CONFIG", "RESETSTAT"), b"+OK\r\n")
                os.kill(min(children), signal.SIGCONT)
                while b"Ctrl-C" not in (line := node.stdout.readline()):
                    self.assertTrue(line, "the node has ended")
                # It is ready: nothing is refused any more.
                self.assertEqual(one.ask("SET", "k", "v"), b"+OK\r\n")
                self.assertEqual(one.ask("GET", "k"), b"$1\r\nv\r\n")
                self.assertIn(b"\r\nloading:0\r\n", one.ask("INFO", "persistence"))
                return True
        finally:
            node.kill()
            node.wait()
            node.stdout.close()

    def test_doors_die_with_their_keeper(self):
        with Door() as door:
            with door.connect() as one:
                self.assertEqual(one.ask("PING"), b"+PONG\r\n")
                doors = door.doors()
                door.process.kill()
                door.process.wait()
                self.assertTrue(one.is_at_its_end())
            end = time.monotonic() + PATIENCE_S
            while os.path.exists(f"/proc/{doors}") and time.monotonic() < end:
                time.sleep(0.01)
            self.assertFalse(os.path.exists(f"/proc/{doors}"))


class Strangers(unittest.TestCase):
    def test_a_browser_gets_nothing(self):
        with Door() as door:
            for data in (
                b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a b\r\n",
                b"GET / HTTP/1.1\r\nHost: x\r\nset a b\r\n",
            ):
                with door.connect() as one:
                    one.send(data + b"set a b\r\n")
                    if data.startswith(b"GET"):
                        self.assertEqual(
                            one.reply(), b"-ERR wrong number of arguments for 'get' command\r\n"
                        )
                    self.assertTrue(one.is_at_its_end())
            with door.connect() as one:
                self.assertEqual(one.ask("EXISTS", "a"), b":0\r\n")

    def test_a_secret_is_asked_for_where_the_node_has_one(self):
        with Door(listens=False) as folder:
            secret = secret_in(folder.folder)
            with Door("--auth-secret-file", secret) as door, door.connect() as one:
                self.assertEqual(one.ask("GET", "k"), b"-NOAUTH Authentication required.\r\n")
                self.assertEqual(one.ask("PING"), b"-NOAUTH Authentication required.\r\n")
                self.assertTrue(one.ask("AUTH", "wrong").startswith(b"-WRONGPASS"))
                self.assertTrue(
                    one.ask("AUTH", "what the clients of this node know").startswith(b"-WRONGPASS")
                )
                token = folder.run("token", "redis", "--secret-file", secret)
                self.assertEqual(token.returncode, 0, token.stderr)
                self.assertRegex(token.stdout, rb"^[0-9a-f]{64}\n$")
                self.assertEqual(one.ask("AUTH", token.stdout.strip()), b"+OK\r\n")
                self.assertEqual(one.ask("SET", "k", "v"), b"+OK\r\n")
                with door.connect() as other:
                    self.assertTrue(other.ask("HELLO", "3").startswith(b"-NOAUTH"))
                    self.assertTrue(
                        other.ask("HELLO", "3", "AUTH", "default", token.stdout.strip()).startswith(b"%7")
                    )
                with door.connect() as large:
                    large.send(b"*1\r\n$20000\r\n")
                    self.assertEqual(large.reply(), b"-ERR Protocol error: unauthenticated bulk length\r\n")

    def test_other_hosts_are_not_let_in_without_a_secret_and_bad_addresses_are_refused(self):
        for address, why in (
            ("redis:0.0.0.0:0", "auth.secret_file"),
            ("redis:localhost:1", "must be numbers"),
            ("memcached:127.0.0.1:1", "redis is the only kind"),
            ("redis:127.0.0.1", "redis:127.0.0.1"),
            ("redis:127.0.0.1:0,redis:127.0.0.1:0", "twice"),
            ("redis:/" + "x" * 200, "too long"),
            ("redis:/nothing/there", "cannot listen"),
        ):
            done = subprocess.run(
                [
                    Programs.refractd,
                    "--socket-path",
                    f"/tmp/refract-none-{os.getpid()}.sock",
                    "--doors-listen",
                    address,
                ],
                capture_output=True,
                timeout=PATIENCE_S,
                text=True,
                env=clean_environment(),
                check=False,
            )
            self.assertNotEqual(done.returncode, 0, address)
            self.assertIn(why, done.stderr, address)

    def test_the_socket_is_for_its_user_alone(self):
        with Door() as door:
            self.assertEqual(os.stat(door.path).st_mode & 0o777, 0o600)
            path = door.path
            with door.connect(by_path=True) as one:
                self.assertEqual(one.ask("PING"), b"+PONG\r\n")
            # That of a program that runs is not taken over; one that was left is.
            done = subprocess.run(
                [Programs.refractd, "--socket-path", door.socket + "2", "--doors-listen", f"redis:{path}"],
                capture_output=True,
                timeout=PATIENCE_S,
                text=True,
                env=clean_environment(),
                check=False,
            )
            self.assertIn("another program listens on", done.stderr)
            door.process.kill()
            door.process.wait()
            self.assertTrue(os.path.exists(path))
            with Node("--doors-listen", f"redis:{path}"), Connection(path) as one:
                self.assertEqual(one.ask("PING"), b"+PONG\r\n")
            self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    print(f"REFRACT_DOOR_SEED={SEED}", flush=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
