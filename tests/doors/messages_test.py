# SPDX-License-Identifier: Apache-2.0
"""Messages at the door: SUBSCRIBE, PUBLISH and their like, beside Debian's Redis and over several threads.

    /usr/bin/python3 -B tests/doors/messages_test.py build/bin/refractd build/bin/refract
"""

import os
import random
import signal
import sys
import threading
import time
import unittest

from door import PATIENCE_S, Door, Redis, request
from node import Programs
from replies import clients_of, info_of, value_of

SEED = int(os.environ.get("REFRACT_DOOR_SEED", random.SystemRandom().randrange(1 << 32)))
ROUNDS = int(os.environ.get("REFRACT_DOOR_ROUNDS", "400"))
MIB = 1 << 20
MESSAGE = {"message", "pmessage", "smessage"}


class Client:
    """One that tells when all that was said to it is here."""

    def __init__(self, server):
        self.line = server.connect()
        self.turn = 0

    def until_synced(self, data=b""):
        """What comes to these requests, and of others meanwhile."""
        self.turn += 1
        word = f"sync {self.turn}"
        self.line.send(data + request("PING", word))
        replies = []
        while True:
            replies.append(self.line.reply())
            value = value_of(replies[-1])
            if word in (value if isinstance(value, list) else [value]):
                return replies[:-1]

    def close(self):
        self.line.socket.close()


def in_one_order(replies):
    """Names and patterns have no order, in which Redis leaves them or tells a message for each."""
    ordered, run = [], []
    names = {b"unsubscribe", b"punsubscribe", b"sunsubscribe"}

    def end_run():
        values = [value_of(reply) for reply in run]
        kinds = [reply[:1] for reply in run]
        ordered.append((kinds, sorted(str(value[1]) for value in values), [value[2] for value in values]))
        run.clear()

    messages = []
    for reply in replies:
        value = value_of(reply)
        is_list = isinstance(value, list) and reply[:1] in b"*>" and bool(value)
        if is_list and str(value[0]).encode() in names and len(value) == 3:
            if run and value_of(run[-1])[0] != value[0]:
                end_run()
            run.append(reply)
            continue
        if run:
            end_run()
        if is_list and value[0] == "pmessage":
            messages.append(reply)
            continue
        ordered += sorted(messages)
        messages = []
        if is_list and reply[:1] == b"*" and all(isinstance(one, str) for one in value):
            value = sorted(value)
            ordered.append((reply[:1], value))
        else:
            ordered.append(reply)
    if run:
        end_run()
    return ordered + sorted(messages)


class BesideRedis(unittest.TestCase):
    def chance_commands(self, chance):
        names = ["a", "b", "ab", "ba"]
        patterns = ["a*", "*b", "[ab]", "?", "c*"]
        some = [chance.choice(names) for _ in range(chance.randrange(4))]
        some_patterns = [chance.choice(patterns) for _ in range(chance.randrange(4))]
        text = chance.choice(["", "text", "x" * 5000, "y" * 100_000])
        return chance.choice(
            [
                ["SUBSCRIBE", *some],
                ["SUBSCRIBE", chance.choice(names)],
                ["UNSUBSCRIBE", *some],
                ["PSUBSCRIBE", *some_patterns],
                ["PUNSUBSCRIBE", *some_patterns],
                ["SSUBSCRIBE", *some],
                ["SUNSUBSCRIBE", *some],
                ["PUBLISH", chance.choice(names), text],
                ["PUBLISH", chance.choice(names), text],
                ["PUBLISH", chance.choice(names), text],
                ["SPUBLISH", chance.choice(names), text],
                ["PUBLISH", "a"],
                ["PING"],
                ["PING", "word"],
                ["SET", "key", text],
                ["GET", "key"],
                ["MGET", "key", "none"],
                ["DBSIZE"],
                ["nosuch"],
                ["HELLO", "4"],
                ["CLIENT", "GETNAME"],
                ["PUBSUB", "CHANNELS"],
                ["PUBSUB", "CHANNELS", chance.choice(patterns)],
                ["PUBSUB", "SHARDCHANNELS"],
                ["PUBSUB", "NUMSUB", *some],
                ["PUBSUB", "SHARDNUMSUB", *some],
                ["PUBSUB", "NUMPAT"],
                ["PUBSUB", "nosuch"],
            ]
            + ([["RESET"]] if chance.randrange(4) == 0 else [])
        )

    def test_chance_sequences_are_answered_as_by_redis(self):
        chance = random.Random(SEED)
        with Door("--doors-threads", "2") as door, Redis() as redis:
            clients = [(Client(door), Client(redis)) for _ in range(6)]
            for one in sum(clients, ()):
                self.addCleanup(one.close)
            for turn in range(ROUNDS):
                pair = chance.choice(clients)
                commands = [self.chance_commands(chance) for _ in range(chance.choice([1, 1, 2, 3, 8]))]
                if chance.randrange(10) == 0:
                    commands = [["RESET"], ["HELLO", chance.choice("23")]][chance.randrange(2) :]
                data = b"".join(request(*words) for words in commands)
                about = f"turn {turn}, REFRACT_DOOR_SEED={SEED}: {[words[:3] for words in commands]}"
                if commands[-1][0] == "HELLO":
                    # Its reply has the number of the connection.
                    got = [len(one.until_synced(data)) for one in pair]
                    self.assertEqual(got[0], got[1], about)
                else:
                    got = [in_one_order(one.until_synced(data)) for one in pair]
                    self.assertEqual(got[0], got[1], about)
                for other in clients:
                    got = [in_one_order(one.until_synced()) for one in other]
                    self.assertEqual(got[0], got[1], about)

    def test_replies_that_are_not_wanted_do_not_come_but_messages_do(self):
        sequences = [
            ["CLIENT REPLY OFF", "SUBSCRIBE a", "PUBLISH a m", "PING", "UNSUBSCRIBE", "CLIENT REPLY ON"],
            ["CLIENT REPLY SKIP", "SUBSCRIBE a", "PUBLISH a m", "UNSUBSCRIBE a b"],
            ["CLIENT REPLY SKIP", "PUBLISH a m", "SUBSCRIBE a", "PSUBSCRIBE a*", "PUBLISH a m", "RESET"],
            ["SUBSCRIBE a", "CLIENT REPLY OFF", "SET k v", "PUBLISH a m", "SET k v", "RESET"],
            ["SET k v", "CLIENT REPLY OFF", "SET k v", "SUBSCRIBE a", "RESET"],
        ]
        with Door("--doors-threads", "2") as door, Redis() as redis:
            for protocol in "23":
                for lines in sequences:
                    got = []
                    for server in (door, redis):
                        one = Client(server)
                        one.line.ask("HELLO", protocol)
                        got.append(one.until_synced(b"".join(request(*line.split(" ")) for line in lines)))
                        one.close()
                    self.assertEqual(got[0], got[1], f"{lines}, RESP{protocol}")

    def test_limits_are_set_as_in_redis(self):
        values = [
            "pubsub 1 2",
            "nosuch 1 2 3",
            "pubsub a 1 1",
            "pubsub 1 1 -1",
            "pubsub 64mb 1k 5 normal 0 0 0",
            "slave 256mb 64mb 60",
            "",
            " pubsub 1 1 1",
            "pubsub 99999999999999999999 0 0",
            "pubsub 32mb 8mb 60",
        ]
        name = "client-output-buffer-limit"
        with Door() as door, Redis() as redis, door.connect() as ours, redis.connect() as theirs:
            for value in values:
                got = [one.ask("CONFIG", "SET", name, value) for one in (ours, theirs)]
                self.assertEqual(got[0], got[1], value)
                got = [one.ask("CONFIG", "GET", name) for one in (ours, theirs)]
                self.assertEqual(got[0], got[1], value)


class Messages(unittest.TestCase):
    def connected(self, door, count):
        lines = [door.connect() for _ in range(count)]
        for line in lines:
            self.addCleanup(line.socket.close)
        return lines

    def subscribed(self, door, count, channel="c"):
        lines = self.connected(door, count)
        for line in lines:
            line.ask("SUBSCRIBE", channel)
        return lines

    def test_each_publishers_messages_come_in_order_to_all_subscribers_of_all_threads(self):
        count, publishers = 3000, 4
        with Door("--doors-threads", "3") as door:
            lines = self.subscribed(door, 12)
            counts = []

            def publish(number):
                with door.connect() as one:
                    # Deep enough to fill queues, and a thread's turn.
                    for begin in range(0, count, 500):
                        one.send(
                            b"".join(
                                request("PUBLISH", "c", f"{number} {i}") for i in range(begin, begin + 500)
                            )
                        )
                        counts.extend(value_of(one.reply()) for _ in range(500))

            threads = [threading.Thread(target=publish, args=(number,)) for number in range(publishers)]
            for thread in threads:
                thread.start()
            for line in lines:
                last = [-1] * publishers
                for _ in range(count * publishers):
                    number, i = map(int, value_of(line.reply())[2].split(" "))
                    self.assertEqual(i, last[number] + 1)
                    last[number] = i
            for thread in threads:
                thread.join(PATIENCE_S)
            self.assertEqual(counts, [12] * count * publishers)

    def test_what_a_writer_has_written_is_there_when_its_message_comes(self):
        with Door("--doors-threads", "2", "--server-shards", "2") as door:
            lines = self.subscribed(door, 4)
            readers = self.connected(door, 4)
            with door.connect() as one:
                for turn in range(200):
                    one.send(request("SET", "k", turn, "EX", "100") + request("PUBLISH", "c", turn))
                    for line, reader in zip(lines, readers):
                        self.assertEqual(value_of(line.reply())[2], str(turn))
                        self.assertEqual(value_of(reader.ask("GET", "k")), str(turn))
                    self.assertEqual(one.reply(), b"+OK\r\n")
                    self.assertEqual(one.reply(), b":4\r\n")

    def test_long_messages_come_whole_to_many(self):
        with Door("--doors-threads", "2") as door:
            lines = self.subscribed(door, 50)
            for line in lines[::2]:
                line.ask("HELLO", "3")
            with door.connect() as one:
                for size in (4000, 4096, 20_000, 70_000, 5 * MIB):
                    text = os.urandom(size)
                    self.assertEqual(one.ask("PUBLISH", "c", text), b":50\r\n")
                    wanted = b"3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n" % (size, text)
                    for line in lines:
                        self.assertEqual(line.reply()[1:], wanted)

    def test_clients_are_listed_and_ended_by_what_they_are(self):
        with Door("--doors-threads", "2") as door, door.connect() as one:
            lines = self.subscribed(door, 4)
            lines[0].ask("PSUBSCRIBE", "p*")
            lines[0].ask("SSUBSCRIBE", "s")
            clients = clients_of(one, "TYPE", "pubsub")
            self.assertEqual(len(clients), 4)
            told = [(client["sub"], client["psub"], client["ssub"], client["flags"]) for client in clients]
            self.assertEqual(sorted(told), [("1", "0", "0", "P")] * 3 + [("1", "1", "1", "P")])
            self.assertEqual(len(clients_of(one, "TYPE", "normal")), 1)
            info = info_of(one, "stats")
            self.assertEqual(info["pubsub_channels"], "1")
            self.assertEqual(info["pubsub_patterns"], "1")
            self.assertEqual(info["pubsubshard_channels"], "1")
            lines[1].ask("UNSUBSCRIBE", "c")
            self.assertEqual(len(clients_of(one, "TYPE", "normal")), 2)
            self.assertEqual(one.ask("CLIENT", "KILL", "TYPE", "pubsub"), b":3\r\n")
            for line in (lines[0], lines[2], lines[3]):
                self.assertTrue(line.is_at_its_end())
            self.assertEqual(lines[1].ask("PING"), b"+PONG\r\n")
            self.assertEqual(one.ask("PUBLISH", "c", "x"), b":0\r\n")
            self.assertEqual(value_of(one.ask("PUBSUB", "CHANNELS")), [])

    def test_messages_need_no_node(self):
        with Door("--doors-threads", "2") as door:
            lines = self.subscribed(door, 4)
            one, last = self.connected(door, 2)
            with door.stopped_server():
                self.assertEqual(one.ask("PUBLISH", "c", "stopped"), b":4\r\n")
                last.ask("SUBSCRIBE", "c")
            os.kill(door.server_now(), signal.SIGKILL)
            self.assertEqual(one.ask("PUBLISH", "c", "killed"), b":5\r\n")
            for line in lines:
                self.assertEqual(value_of(line.reply())[2], "stopped")
            for line in (*lines, last):
                self.assertEqual(value_of(line.reply())[2], "killed")

    def test_those_that_are_killed_harm_no_others(self):
        """Publishers and subscribers come and go while one hears and one is heard."""
        with Door("--doors-threads", "3") as door:
            (steady,) = self.subscribed(door, 1, "steady")
            end, wrong = time.monotonic() + 3, []

            def come_and_go(number):
                chance = random.Random(SEED + number)
                while time.monotonic() < end:
                    one = door.connect()
                    one.ask("SUBSCRIBE", "c", "d")
                    one.ask("PSUBSCRIBE", "*")
                    other = door.connect()
                    for _ in range(chance.randrange(20)):
                        other.send(request("PUBLISH", chance.choice("cd"), "x" * 10_000) * 20)
                    # What was sent is not read by either.
                    for line in chance.sample([one, other], 2):
                        line.socket.close()

            def publish():
                try:
                    with door.connect() as one:
                        for i in range(300):
                            if value_of(one.ask("PUBLISH", "steady", i)) < 1:
                                wrong.append(i)
                            time.sleep(0.01)
                except OSError as error:
                    wrong.append(error)

            threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(4)]
            threads.append(threading.Thread(target=publish))
            for thread in threads:
                thread.start()
            for i in range(300):
                self.assertEqual(value_of(steady.reply())[2], str(i))
            for thread in threads:
                thread.join(PATIENCE_S)
            self.assertEqual(wrong, [])
            with door.connect() as one:
                over = time.monotonic() + PATIENCE_S
                while value_of(one.ask("PUBSUB", "NUMSUB", "c", "d"))[1::2] != [0, 0]:
                    self.assertLess(time.monotonic(), over)
                    time.sleep(0.01)
                self.assertEqual(value_of(one.ask("PUBSUB", "NUMPAT")), 0)

    def test_an_idle_door_with_subscribers_takes_no_time(self):
        with Door("--doors-threads", "2") as door, door.connect() as one:
            lines = self.subscribed(door, 20)
            self.assertEqual(one.ask("PUBLISH", "c", "x"), b":20\r\n")
            for line in lines:
                line.reply()

            def ticks():
                with open(f"/proc/{door.doors()}/stat", encoding="ascii") as file:
                    return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))

            time.sleep(1)
            before = ticks()
            time.sleep(2)
            self.assertLessEqual(ticks() - before, 2)


class SlowSubscribers(unittest.TestCase):
    def run_until_ended(self, limits, size, wait_s=0.0):
        """One that does not read, and others that do. Returns how many messages were sent."""
        with Door("--doors-threads", "2") as door, door.connect() as one:
            one.ask("CONFIG", "SET", "client-output-buffer-limit", limits)
            reader, deaf = door.connect(), door.connect()
            for line in (reader, deaf):
                line.ask("SUBSCRIBE", "c")
            sent, end = 0, time.monotonic() + PATIENCE_S
            while value_of(one.ask("PUBSUB", "NUMSUB", "c"))[1] == 2:
                self.assertLess(time.monotonic(), end)
                if wait_s == 0 or sent * size < 9 * MIB:
                    one.ask("PUBLISH", "c", "x" * size)
                    sent += 1
                    self.assertEqual(len(value_of(reader.reply())[2]), size)
                else:
                    time.sleep(wait_s)
            self.assertEqual(one.ask("PUBLISH", "c", "last"), b":1\r\n")
            self.assertEqual(value_of(reader.reply())[2], "last")
            # It gets what the kernel has, and then the end.
            with self.assertRaises(ConnectionError):
                for _ in range(sent + 1):
                    self.assertIn(value_of(deaf.reply())[0], MESSAGE)
            reader.socket.close()
            deaf.socket.close()
            return sent

    def test_one_is_ended_at_the_hard_limit(self):
        for size in (1000, 100_000):
            sent = self.run_until_ended("pubsub 4mb 0 0", size)
            self.assertGreater(sent * size, 4 * MIB)
            # Besides those bytes there are those that the kernel takes.
            self.assertLess(sent * size, 40 * MIB)

    def test_one_is_ended_when_it_was_at_the_soft_limit_for_too_long(self):
        """No further message comes."""
        begin = time.monotonic()
        self.run_until_ended("pubsub 0 1mb 1", 100_000, wait_s=0.02)
        self.assertGreater(time.monotonic() - begin, 1)

    def test_one_that_reads_in_time_stays(self):
        with Door() as door, door.connect() as one, door.connect() as slow:
            one.ask("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 1mb 2")
            slow.ask("SUBSCRIBE", "c")
            for _ in range(3):
                for _ in range(100):
                    one.ask("PUBLISH", "c", "x" * 100_000)
                time.sleep(1)
                for _ in range(100):
                    slow.reply()
            self.assertEqual(one.ask("PUBLISH", "c", "x"), b":1\r\n")

    def test_long_messages_to_many_that_do_not_read_are_there_once(self):
        with Door("--doors-threads", "2") as door, door.connect() as one:
            lines = [door.connect() for _ in range(100)]
            for line in lines:
                line.ask("SUBSCRIBE", "c")
            for _ in range(16):
                self.assertEqual(one.ask("PUBLISH", "c", "x" * MIB), b":100\r\n")
            with open(f"/proc/{door.doors()}/smaps_rollup", encoding="ascii") as file:
                held = sum(int(row.split()[1]) for row in file if row.startswith("Private_Dirty"))
            self.assertLess(held, 128 * 1024, "KiB; copies for each would be 1.6 GiB")
            for line in lines:
                for _ in range(16):
                    self.assertEqual(len(value_of(line.reply())[2]), MIB)
                line.socket.close()

    def test_channels_without_end_take_bounded_memory(self):
        with Door() as door, door.connect() as one, door.connect() as other:
            other.ask("SUBSCRIBE", "c")
            is_over = False
            try:
                for number in range(1200):
                    names = [b"%d %d " % (number, i) + b"n" * 15_000 for i in range(100)]
                    one.send(request("SUBSCRIBE", *names))
                    # Each is confirmed by its name, and more.
                    left = sum(map(len, names))
                    while left > 0:
                        came = len(one.socket.recv(MIB))
                        if came == 0:
                            raise ConnectionError
                        left -= came
            except ConnectionError:
                is_over = True
            self.assertTrue(is_over)
            self.assertGreater(number, 300)
            with door.connect() as last:
                self.assertEqual(last.ask("PUBLISH", "c", "x"), b":1\r\n")
                # It leaves them in steps.
                end = time.monotonic() + PATIENCE_S
                while info_of(last, "stats")["pubsub_channels"] != "1" and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertEqual(value_of(last.ask("PUBSUB", "CHANNELS")), ["c"])
                self.assertEqual(last.ask("PUBLISH", "n" * 65_537, "x")[:13], b"-ERR channels")
                self.assertEqual(last.ask("PSUBSCRIBE", "a", "n" * 1025)[:13], b"-ERR patterns")
                self.assertEqual(value_of(last.ask("PUBSUB", "NUMPAT")), 0)
            self.assertEqual(value_of(other.reply())[2], "x")


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    print(f"REFRACT_DOOR_SEED={SEED}", flush=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
