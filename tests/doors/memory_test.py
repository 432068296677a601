# SPDX-License-Identifier: Apache-2.0
"""Long values at the door, and what connections may hold of its memory and of the node's.

    /usr/bin/python3 -B tests/doors/memory_test.py build/bin/refractd build/bin/refract
"""

import os
import random
import select
import sys
import threading
import time
import unittest

from door import PATIENCE_S, Door, request, secret_in
from node import Programs

SEED = int(os.environ.get("REFRACT_DOOR_SEED", random.SystemRandom().randrange(1 << 32)))
MIB = 1 << 20
# At and about the lengths from which words and values take another way.
LENGTHS = [0, 1, 16_383, 16_384, 16_385, 65_536, 65_537, 100_000, MIB, 5 * MIB]


def private_kib(process):
    with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))


def send_beside(connection, data):
    """Replies come while it is still being sent."""
    thread = threading.Thread(target=connection.send, args=(data,))
    thread.start()
    return thread


class LongValues(unittest.TestCase):
    def run_with(self, *flags):
        chance = random.Random(SEED)
        values = {b"key:%d" % i: chance.randbytes(chance.choice(LENGTHS)) for i in range(60)}
        with Door("--memory-limit", "2GiB", *flags) as door, door.connect() as one:
            sending = send_beside(
                one, b"".join(request("SET", key, value) for key, value in values.items())
            )
            self.assertEqual({one.reply() for _ in values}, {b"+OK\r\n"})
            sending.join()
            sending = send_beside(one, b"".join(request("GET", key) for key in values))
            for key, value in values.items():
                self.assertEqual(one.reply(), b"$%d\r\n%s\r\n" % (len(value), value), f"{key} {SEED}")
            sending.join()
            # With options, several in a request, as no value, cut anywhere.
            long, longer = chance.randbytes(70_000), chance.randbytes(MIB)
            data = b"".join(
                [
                    request("SET", "a", long, "EX", 100),
                    request("SET", "a", longer, "NX"),
                    request("SET", "b", longer, "XX"),
                    request("MSET", "b", longer, "c", "short", "d", long, "b", long),
                    request("SET", "c", longer, "GET"),
                    request("ECHO", long),
                    request("MGET", "a", "b", "c", "nothing"),
                    request("SET", long, "a key is shorter than this"),
                ]
            )
            replies = [b"+OK", b"$-1", b"$-1", b"+OK", b"$5\r\nshort"]
            replies += [b"$70000\r\n" + long, b"*4"]
            replies += [b"$%d\r\n%s" % (len(value), value) for value in (long, long, longer)] + [b"$-1"]
            wanted = b"".join(reply + b"\r\n" for reply in replies)

            def send():
                at = 0
                while at < len(data):
                    step = chance.choice([7, 1000, 16_384, 100_000, MIB])
                    one.send(data[at : at + step])
                    at += step

            thread = threading.Thread(target=send)
            thread.start()
            got = b"".join(one.reply() for _ in range(7))
            self.assertEqual(got, wanted, SEED)
            self.assertTrue(one.reply().startswith(b"-ERR "))
            thread.join()

    def test_values_of_every_length_come_and_leave_whole(self):
        self.run_with()

    def test_with_a_log_and_two_shards_too(self):
        with Door(listens=False) as folder:
            place = os.path.join(folder.folder, "log")
            self.run_with("--server-shards", "2", "--data-durability", "everysec", "--data-folder", place)

    def test_a_reply_is_the_value_of_its_moment_however_late_it_is_read(self):
        self.run_late_replies()

    def test_the_same_where_entries_are_evicted(self):
        self.run_late_replies("--memory-limit", "64MiB", "--memory-eviction", "lru", "--server-shards", "2")

    def run_late_replies(self, *flags):
        """They wait in the node's memory, then in the door's; what replaced the value lies elsewhere."""
        with Door(*flags) as door, door.connect() as late, door.connect() as other:
            first, second = b"1" * MIB, b"2" * MIB
            self.assertEqual(other.ask("SET", "k", first), b"+OK\r\n")
            late.send(request("GET", "k") * 7)
            # It was read once the first bytes are here.
            select.select([late.socket], [], [], PATIENCE_S)
            time.sleep(0.1)
            for i in range(100):
                self.assertEqual(other.ask("SET", "k", second), b"+OK\r\n")
                self.assertEqual(other.ask("SET", f"other:{i % 20}", second), b"+OK\r\n")
            time.sleep(1.5)
            for i in range(20):
                self.assertEqual(other.ask("SET", f"other:{i}", second), b"+OK\r\n")
            self.assertEqual(other.ask("SET", "k", second), b"+OK\r\n")
            for _ in range(7):
                self.assertEqual(late.reply(), b"$%d\r\n%s\r\n" % (MIB, first))
            self.assertEqual(late.ask("GET", "k"), b"$%d\r\n%s\r\n" % (MIB, second))

    def test_a_client_that_does_not_read_gives_the_nodes_memory_back(self):
        """Values that replies wait in are not freed, and others find no memory: for a second."""
        with Door("--memory-limit", "64MiB", "--memory-eviction", "none") as door, door.connect() as other:
            names = [b"first:%d" % i for i in range(24)]
            for name in names:
                self.assertEqual(other.ask("SET", name, b"1" * MIB), b"+OK\r\n")
            deaf = [door.connect(by_path=True) for _ in range(12)]
            for i, one in enumerate(deaf):
                one.send(b"".join(request("GET", name) for name in names[2 * i : 2 * i + 2]))
                select.select([one.socket], [], [], PATIENCE_S)
            self.assertEqual(other.ask("DEL", *names), b":24\r\n")
            said = set()
            end = time.monotonic() + 30
            for i in range(24):
                while (reply := other.ask("SET", b"second:%d" % i, b"2" * MIB)) != b"+OK\r\n":
                    said.add(reply[:4])
                    self.assertLess(time.monotonic(), end, f"{i}: {reply}")
                    time.sleep(0.05)
            self.assertEqual(said, {b"-OOM"}, "nothing waited in the node's memory")
            for one in deaf:
                for _ in range(2):
                    self.assertEqual(one.reply(), b"$%d\r\n%s\r\n" % (MIB, b"1" * MIB))
                one.socket.close()


class Memory(unittest.TestCase):
    def test_one_that_does_not_read_holds_bounded_memory_and_hinders_no_other(self):
        with Door() as door, door.connect() as deaf, door.connect() as other:
            self.assertEqual(other.ask("SET", "k", b"v" * 100_000), b"+OK\r\n")
            deaf.socket.setblocking(False)
            asked, sent = request("GET", "k") * 100, 0
            while sent < 20_000_000:
                try:
                    sent += deaf.socket.send(asked)
                except BlockingIOError:
                    break
            self.assertEqual(other.ask("GET", "k")[:10], b"$100000\r\nv")
            self.assertLess(private_kib(door.doors()), 64 * 1024)
            # It gets all of it once it reads.
            deaf.socket.setblocking(True)
            deaf.socket.settimeout(PATIENCE_S)
            for _ in range(min(300, sent // len(request("GET", "k")))):
                self.assertEqual(len(deaf.reply()), 100_000 + 11)

    def test_the_one_that_holds_most_is_ended_where_all_hold_too_much(self):
        with Door() as door, door.connect() as other:
            holders = [door.connect() for _ in range(10)]
            begin = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (200 * MIB)
            piece = bytes(10 * MIB)
            ended = 0
            for number, one in enumerate(holders):
                # The first one holds most.
                try:
                    one.send(begin)
                    for _ in range(12 if number == 0 else 11):
                        one.send(piece)
                except (BrokenPipeError, ConnectionResetError):
                    ended += 1
            self.assertEqual(other.ask("SET", "k", "v"), b"+OK\r\n")
            self.assertTrue(holders[0].is_at_its_end())
            self.assertEqual(ended, 0)
            self.assertLess(private_kib(door.doors()), 1500 * 1024)
            for one in holders:
                one.socket.close()
            self.assertEqual(other.ask("GET", "k"), b"$1\r\nv\r\n")

    def test_many_that_read_long_values_are_none_that_hold_too_much(self):
        """What they wait for lies in the node's memory, and is more than a thread may hold of its own."""
        with Door("--doors-threads", "1") as door, door.connect() as other:
            self.assertEqual(other.ask("SET", "k", bytes(12 * MIB)), b"+OK\r\n")
            readers = [door.connect(by_path=True) for _ in range(100)]
            for one in readers:
                one.send(request("GET", "k"))
            for one in readers:
                left = 12 * MIB + len(b"$12582912\r\n\r\n")
                while left > 0:
                    came = len(one.socket.recv(MIB))
                    self.assertGreater(came, 0)
                    left -= came
                one.socket.close()

    def test_commands_wait_for_room_for_their_replies(self):
        with Door("--doors-threads", "1") as door, door.connect() as deaf, door.connect() as other:
            value = b"v" * (4 * MIB)
            self.assertEqual(other.ask("SET", "k", value), b"+OK\r\n")
            # They line up behind a write, and each replies with the value.
            asked = request("SET", "x", "w" * 4000) + 120 * request("SET", "k", "n", "NX", "GET")
            deaf.send(asked)
            time.sleep(1.5)
            self.assertLess(private_kib(door.doors()), 192 * 1024)
            self.assertEqual(deaf.reply(), b"+OK\r\n")
            for _ in range(120):
                self.assertEqual(len(deaf.reply()), 4 * MIB + len(b"$4194304\r\n\r\n"))

    def test_an_answer_beyond_all_bounds_is_refused(self):
        with Door("--memory-limit", "1GiB") as door, door.connect() as one:
            self.assertEqual(one.ask("SET", "k", bytes(64 * MIB)), b"+OK\r\n")
            self.assertEqual(
                one.ask("MGET", *(["k"] * 20)), b"-ERR the values of one command have at most 512 MiB\r\n"
            )
            self.assertEqual(one.ask("SCAN", "0", "MATCH", "x" * 1025)[:13], b"-ERR patterns")
            self.assertEqual(one.ask("CONFIG", "GET", *(["x"] * 2000)), b"-ERR at most 1024 names\r\n")
            self.assertEqual(one.ask("COMMAND", "INFO", *(["x"] * 2000)), b"-ERR at most 1024 names\r\n")
            self.assertLess(private_kib(door.doors()), 256 * 1024)

    def test_one_that_has_not_proven_itself_holds_little(self):
        with Door(listens=False) as folder:
            secret = secret_in(folder.folder)
            with Door("--auth-secret-file", secret) as door, door.connect() as one:
                one.send(b"*10\r\n")
                with self.assertRaises(ConnectionError):
                    for _ in range(9):
                        one.send(b"$16000\r\n" + b"x" * 16_000 + b"\r\n")
                        time.sleep(0.1)
                    self.assertNotEqual(one.socket.recv(1), b"")
                    raise AssertionError("it may send more")

    def test_what_was_sent_by_those_that_have_gone_is_counted(self):
        with Door("--doors-threads", "1", "--memory-limit", "64MiB") as door, door.connect() as other:
            with door.stopped_server():
                data = request("SET", "k", bytes(100 * MIB))
                for _ in range(20):
                    with door.connect() as one:
                        try:
                            one.send(data)
                        except (BrokenPipeError, ConnectionResetError):
                            pass
                self.assertEqual(other.ask("PING"), b"+PONG\r\n")
                self.assertLess(private_kib(door.doors()), 1500 * 1024)

    def test_what_is_announced_and_never_sent_takes_no_memory(self):
        with Door() as door, door.connect() as other:
            holders = [door.connect() for _ in range(200)]
            for one in holders:
                one.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\nv" % (60 * MIB))
            self.assertEqual(other.ask("SET", "k", "v"), b"+OK\r\n")
            with open(f"/proc/{door.doors()}/smaps_rollup", encoding="ascii") as file:
                held = sum(int(line.split()[1]) for line in file if line.startswith("Rss"))
            self.assertLess(held, 700 * 1024, "KiB")
            for one in holders:
                one.socket.close()


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    print(f"REFRACT_DOOR_SEED={SEED}", flush=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
