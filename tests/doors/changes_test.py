# SPDX-License-Identifier: Apache-2.0
"""Changes that depend on what a key has, by many clients at once, and of long values.

    /usr/bin/python3 -B tests/doors/changes_test.py build/bin/refractd build/bin/refract
"""

import os
import sys
import threading
import time
import unittest

from door import PATIENCE_S, Door, at_once, number, request
from node import Programs

MIB = 1 << 20
ROUNDS = int(os.environ.get("REFRACT_DOOR_ROUNDS", 400))


class Together(unittest.TestCase):
    """Four clients, of two threads of the doors, so that they meet in one thread and beside each other."""

    @classmethod
    def setUpClass(cls):
        cls.door = Door("--doors-threads", "2", "--server-shards", "2")

    @classmethod
    def tearDownClass(cls):
        cls.door.__exit__(None, None, None)

    def ask(self, *words):
        with self.door.connect() as one:
            return one.ask(*words)

    def test_sums_are_exact_and_each_is_answered_once(self):
        def work(_):
            answers = []
            with self.door.connect() as one:
                for _ in range(ROUNDS // 16):
                    one.send(request("INCR", "sum") * 16)
                    answers += [number(one.reply()) for _ in range(16)]
            return answers

        answers = at_once(4, work)
        for of_one in answers:
            self.assertEqual(of_one, sorted(of_one), "a connection's commands are in their order")
        self.assertEqual(sorted(sum(answers, [])), list(range(1, 4 * (ROUNDS // 16) * 16 + 1)))

    def test_nothing_that_was_appended_is_lost(self):
        def work(i):
            with self.door.connect() as one:
                one.send(b"".join(request("APPEND", "text", f"<{i}:{j}>") for j in range(ROUNDS)))
                lengths = [number(one.reply()) for _ in range(ROUNDS)]
            self.assertEqual(lengths, sorted(lengths))
            return lengths

        lengths = sum(at_once(4, work), [])
        self.assertEqual(len(set(lengths)), 4 * ROUNDS)
        text = self.ask("GET", "text").split(b"\r\n")[1]
        self.assertEqual(len(text), max(lengths))
        parts = text[1:-1].split(b"><")
        for i in range(4):
            wanted = [b"%d:%d" % (i, j) for j in range(ROUNDS)]
            self.assertEqual([part for part in parts if part.startswith(b"%d:" % i)], wanted)

    def test_what_is_taken_is_taken_once(self):
        """Two add to a number, by integers and by floats, two take it away, one gives it times to live."""
        is_over = threading.Event()

        def add(i):
            with self.door.connect() as one:
                for _ in range(ROUNDS):
                    if i == 0:
                        number(one.ask("INCRBY", "heap", "2"))
                    else:
                        self.assertEqual(one.ask("INCRBYFLOAT", "heap", "2")[:1], b"$")
            return 0

        def take(i):
            taken = 0
            with self.door.connect() as one:
                while not is_over.is_set():
                    words = ["GETSET", "heap", "0"] if i == 2 else ["GETDEL", "heap"]
                    reply = one.ask(*words).split(b"\r\n")
                    taken += int(reply[1]) if reply[0] != b"$-1" else 0
            return taken

        def expire():
            with self.door.connect() as one:
                while not is_over.is_set():
                    for words in (
                        ["EXPIRE", "heap", "1000"],
                        ["PERSIST", "heap"],
                        ["GETEX", "heap", "EX", "10"],
                    ):
                        self.assertNotEqual(one.ask(*words)[:1], b"-")
            return 0

        def work(i):
            if i < 2:
                added.wait(PATIENCE_S)
                try:
                    return add(i)
                finally:
                    ended.wait(PATIENCE_S)
                    is_over.set()
            return take(i) if i < 4 else expire()

        added, ended = threading.Barrier(2), threading.Barrier(2)
        taken = sum(at_once(5, work))
        rest = self.ask("GET", "heap").split(b"\r\n")
        self.assertEqual(taken + (int(rest[1]) if rest[0] != b"$-1" else 0), 2 * 2 * ROUNDS)

    def test_a_name_is_taken_by_one(self):
        def work(i):
            won = 0
            with self.door.connect() as one:
                for j in range(ROUNDS // 10):
                    one.ask("SET", f"own:{i}", f"{i}")
                    turn.wait(PATIENCE_S)
                    won += number(one.ask("RENAMENX", f"own:{i}", f"name:{j}"))
                    turn.wait(PATIENCE_S)
            return won

        turn = threading.Barrier(3)
        self.assertEqual(sum(at_once(3, work)), ROUNDS // 10)

    def test_what_is_renamed_is_at_one_of_its_names(self):
        self.ask("SET", "left", "the only one")

        def work(i):
            with self.door.connect() as one:
                for _ in range(ROUNDS // 4):
                    names = ("left", "right") if i % 2 == 0 else ("right", "left")
                    self.assertIn(one.ask("RENAME", *names), (b"+OK\r\n", b"-ERR no such key\r\n"))

        at_once(4, work)
        self.assertEqual(number(self.ask("EXISTS", "left", "right")), 1)

    def test_all_keys_of_msetnx_are_set_or_none(self):
        names = [f"all:{i}" for i in range(8)]

        def work(i):
            chosen = names[i : i + 5]
            with self.door.connect() as one:
                turn.wait(PATIENCE_S)
                return number(one.ask("MSETNX", *(word for name in chosen for word in (name, i))))

        for _ in range(ROUNDS // 20):
            turn = threading.Barrier(4)
            won = at_once(4, work)
            self.assertEqual(sum(won), 1, "any two of them have a key in common")
            first = won.index(1)
            with self.door.connect() as one:
                values = [one.ask("GET", name) for name in names]
                wanted = [
                    b"$1\r\n%d\r\n" % first if first <= i < first + 5 else b"$-1\r\n" for i in range(8)
                ]
                self.assertEqual(values, wanted)
                one.ask("DEL", *names)

    def test_a_moment_of_expiry_does_not_move_with_each_change(self):
        moment = (int(time.time()) + 1000) * 1000
        with self.door.connect() as one:
            one.ask("SET", "counter", "0", "PXAT", moment)
            one.ask("SET", "text:2", "", "PXAT", moment)
            for _ in range(ROUNDS):
                one.ask("INCR", "counter")
                one.ask("APPEND", "text:2", "x")
            for key in ("counter", "text:2"):
                self.assertEqual(number(one.ask("PEXPIRETIME", key)), moment)

    def test_many_ask_for_all_keys_and_each_is_told_all(self):
        names = [b"name:%d" % i for i in range(3000)]
        self.ask("MSET", *(word for name in names for word in (name, "v")))

        def work(_):
            with self.door.connect() as one:
                one.send(request("KEYS", "name:*") * 5 + request("APPEND", "", "x"))
                for _ in range(5):
                    self.assertEqual(sorted(one.reply().split(b"\r\n")[2:-1:2]), sorted(names))
                self.assertEqual(one.reply(), b"-ERR keys have at least one byte\r\n")

        at_once(4, work)


class Stops(unittest.TestCase):
    def test_ranges_are_read_while_the_server_is_stopped(self):
        with Door() as door, door.connect() as one, door.connect() as other:
            one.ask("SET", "k", "0123456789")
            with door.stopped_server():
                self.assertEqual(one.ask("GETRANGE", "k", "-3", "-2"), b"$2\r\n78\r\n")
                self.assertEqual(one.ask("KEYS", "*"), b"*1\r\n$1\r\nk\r\n")
                self.assertEqual(one.ask("RANDOMKEY"), b"$1\r\nk\r\n")
                other.send(request("APPEND", "k", "x") + request("STRLEN", "k"))
                time.sleep(0.05)
                self.assertEqual(one.ask("STRLEN", "k"), b":10\r\n")
            self.assertEqual(number(other.reply()), 11)
            self.assertEqual(number(other.reply()), 11)


class LongValues(unittest.TestCase):
    def private_bytes(self, process):
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
            return 1024 * sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))

    def test_changes_of_long_values_wait_for_room(self):
        """Twenty-four of 32 MiB would have 768 MiB at once. A sanitizer keeps what was freed for a while."""
        bytes_of_one, count = 32 * MIB, 24
        with Door("--memory-limit", "2GiB", "--server-shards", "2") as door:
            doors, most, is_over = door.doors(), 0, threading.Event()

            def work(i):
                nonlocal most
                if i == count:
                    while not is_over.wait(0.05):
                        most = max(most, self.private_bytes(doors))
                    return
                with door.connect() as one:
                    self.assertEqual(
                        number(one.ask("SETRANGE", f"long:{i}", bytes_of_one - 3, "end")), bytes_of_one
                    )
                    self.assertEqual(
                        one.ask("GETRANGE", f"long:{i}", bytes_of_one - 6, -1), b"$6\r\n\0\0\0end\r\n"
                    )
                ended.wait(PATIENCE_S)
                is_over.set()

            ended = threading.Barrier(count)
            at_once(count + 1, work)
            self.assertGreater(most, bytes_of_one)
            self.assertLess(most, 512 * MIB)

    def test_a_long_value_is_changed_as_a_short_one(self):
        with Door("--memory-limit", "1GiB") as door, door.connect() as one:
            value = os.urandom(5 * MIB)
            one.ask("SET", "long", value)
            for words, changed in (
                (["APPEND", "long", "end"], value + b"end"),
                (["SETRANGE", "long", "5", "inside"], value[:5] + b"inside" + value[11:] + b"end"),
            ):
                self.assertEqual(number(one.ask(*words)), len(changed))
                self.assertEqual(one.ask("GET", "long"), b"$%d\r\n%s\r\n" % (len(changed), changed))
            self.assertEqual(number(one.ask("EXPIRE", "long", "100")), 1)
            self.assertEqual(one.ask("RENAME", "long", "other"), b"+OK\r\n")
            self.assertLessEqual(number(one.ask("TTL", "other")), 100)
            self.assertEqual(number(one.ask("COPY", "other", "long")), 1)
            self.assertEqual(number(one.ask("PERSIST", "other")), 1)
            for words in (["GETEX", "other", "EX", "10"], ["GETSET", "other", "x"], ["GETDEL", "long"]):
                self.assertEqual(one.ask(*words), b"$%d\r\n%s\r\n" % (len(changed), changed))

    def test_what_the_owner_leaves_to_its_clients_keeps_its_place(self):
        """A row of more than 1 MiB, and a longer answer than an owner's, are computed by the door."""
        long = b"v" * (3 * MIB)
        text = b"123456789012345.1"
        with Door("--memory-limit", "256MiB", "--server-shards", "2") as door, door.connect() as one:
            for first, words, wanted in (
                (long, ["APPEND", "k", "end"], b":%d\r\n" % (len(long) + 3)),
                (long, ["SETRANGE", "k", "1", "x"], b":%d\r\n" % len(long)),
                (long, ["EXPIRE", "k", "100"], b":1\r\n"),
                (long, ["PERSIST", "k"], b":0\r\n"),
                (long, ["INCR", "k"], b"-ERR value is not an integer or out of range\r\n"),
                (text, ["INCRBYFLOAT", "k", "1"], b"$33\r\n123456789012346.09999847412109375\r\n"),
            ):
                others = [
                    ["SET", "other", "v"],
                    ["SET", "k", "1"],
                    ["INCRBYFLOAT", "k", "1"],
                    ["INCR", "k"],
                ]
                for behind in (others, others[1:] * 20):
                    one.send(b"".join(request(*each) for each in [["SET", "k", first], words, *behind]))
                    one.send(request("GETSET", "k", "over") + request("TTL", "k"))
                    self.assertEqual(one.reply(), b"+OK\r\n")
                    self.assertEqual(one.reply()[:40], wanted[:40], words)
                    for each in behind:
                        reply = {"SET": b"+OK\r\n", "INCRBYFLOAT": b"$1\r\n2\r\n", "INCR": b":3\r\n"}[
                            each[0]
                        ]
                        self.assertEqual(one.reply(), reply, words)
                    self.assertEqual(one.reply(), b"$1\r\n3\r\n")
                    self.assertEqual(one.reply(), b":-1\r\n")

    def test_no_value_is_longer_than_512_mib(self):
        with Door("--memory-limit", "64MiB") as door, door.connect() as one:
            wrong = b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"
            self.assertEqual(one.ask("SETRANGE", "k", 512 * MIB, "x"), wrong)
            self.assertEqual(one.ask("SETRANGE", "k", 2**63 - 1, "x"), wrong)
            self.assertEqual(one.ask("SETRANGE", "k", 512 * MIB, ""), b":0\r\n")
            self.assertTrue(one.ask("SETRANGE", "k", 512 * MIB - 1, "x").startswith(b"-OOM "))
            self.assertEqual(number(one.ask("EXISTS", "k")), 0)


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
