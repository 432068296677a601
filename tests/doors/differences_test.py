# SPDX-License-Identifier: Apache-2.0
"""What differs by intent between a node's door and Debian's Redis, each shown beside it.

    /usr/bin/python3 -B tests/doors/differences_test.py build/bin/refractd build/bin/refract [TEST ...]
"""

import sys
import time
import unittest

from door import Door, Redis
from node import Programs
from replies import elements

# What is not as in Redis, and why. Each is the name of a test of Differences.
DIFFERENCES = {
    "an_empty_key": "keys have at least one byte",
    "a_long_key": "keys have at most 65,535 bytes",
    "a_long_pattern": "patterns have at most 1,024 bytes, since one is matched with each key",
    "a_moment_far_away": "store time ends in the year 2262",
    "a_long_addend": "INCRBYFLOAT takes addends of at most 255 bytes",
    "many_keys_at_one_moment": "MSETNX, RENAME and COPY have the limits of transactions",
    "an_order_of_keys": "KEYS, SCAN and RANDOMKEY have an order of their own, and SCAN its own cursors",
    "a_count_behind_an_expiry": "DBSIZE counts what has expired until it is swept, in both at another moment",
    "a_number_of_a_connection": "connections have numbers of their own",
    "a_key_that_came_and_went": "WATCH compares what a key is: absent at both ends is no change",
    "what_cannot_be_queued": "MULTI refuses what is not one moment, or changes how what follows is taken",
    "a_large_transaction": "a transaction has at most 4,096 keys and 16 MiB",
}


class Differences(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.door, cls.redis = Door(), Redis("--databases", "1")
        cls.ours, cls.theirs = cls.door.connect(), cls.redis.connect()

    @classmethod
    def tearDownClass(cls):
        for one in (cls.ours, cls.theirs, cls.door, cls.redis):
            one.__exit__(None, None, None)

    def ask(self, *words):
        return self.ours.ask(*words), self.theirs.ask(*words)

    def test_each_has_a_test(self):
        for name in DIFFERENCES:
            self.assertTrue(hasattr(self, f"test_{name}"), name)

    def test_an_empty_key(self):
        for words in (
            ["SET", "", "v"],
            ["INCR", ""],
            ["APPEND", "", "v"],
            ["EXPIRE", "", "100"],
            ["GET", ""],
        ):
            got, wanted = self.ask(*words)
            self.assertEqual(got, b"-ERR keys have at least one byte\r\n")
            self.assertNotEqual(wanted[:1], b"-" if words[0] != "INCR" else b"+")

    def test_a_long_key(self):
        for words in (
            ["SET", "k" * 65_536, "v"],
            ["GETSET", "k" * 65_536, "v"],
            ["SETNX", "k" * 65_536, "v"],
        ):
            got, wanted = self.ask(*words)
            self.assertIn(b"keys have at most 65535 bytes", got)
            self.assertNotEqual(wanted[:1], b"-")
        self.assertEqual(*self.ask("SET", "k" * 65_535, "v"))

    def test_a_long_pattern(self):
        got, wanted = self.ask("KEYS", "x" * 1025)
        self.assertEqual(got, b"-ERR patterns have at most 1024 bytes\r\n")
        self.assertEqual(wanted, b"*0\r\n")
        self.assertEqual(*self.ask("KEYS", "x" * 1024))

    def test_a_moment_far_away(self):
        self.assertEqual(*self.ask("SET", "far", "v", "PXAT", "9223372036854775807"))
        got, wanted = self.ask("PEXPIRETIME", "far")
        self.assertEqual(wanted, b":9223372036854775807\r\n")
        self.assertEqual(time.gmtime(int(got[1:]) // 1000).tm_year, 2262)

    def test_a_long_addend(self):
        addend = "1." + "0" * 254
        got, wanted = self.ask("INCRBYFLOAT", "float", addend)
        self.assertEqual(got, b"-ERR value is not a valid float\r\n")
        self.assertEqual(wanted, b"$1\r\n1\r\n")
        self.ask("SET", "float", "0")
        self.assertEqual(*self.ask("INCRBYFLOAT", "float", addend[:255]))

    def test_many_keys_at_one_moment(self):
        wrong = b"at most 4096 conditions and writes (MSETNX has two a key), and 16 MiB of keys and values"

        def pairs(count):
            return [word for i in range(count) for word in (f"m{i}", "v")]

        for words in (pairs(2049), pairs(4097), ["m0", "v" * (17 << 20)]):
            got, wanted = self.ask("MSETNX", *words)
            self.assertIn(wrong, got)
            self.assertEqual(wanted, b":1\r\n")
            self.assertEqual(self.ours.ask("EXISTS", "m0", "m2048"), b":0\r\n")
            self.theirs.ask("DEL", *words[::2])
        self.assertEqual(*self.ask("MSETNX", *pairs(2048)))
        self.assertEqual(*self.ask("SET", "long", "v" * (17 << 20)))
        for words in (["RENAME", "long", "to"], ["COPY", "long", "to"]):
            got, wanted = self.ask(*words)
            self.assertIn(wrong, got)
            self.assertNotEqual(wanted[:1], b"-")
        self.assertEqual(self.ours.ask("STRLEN", "long"), b":%d\r\n" % (17 << 20))
        # Keys and value of the longest have so much together.
        longest = "v" * ((16 << 20) - len("longest" + "longest" + "to"))
        self.assertEqual(*self.ask("SET", "longest", longest))
        self.assertEqual(*self.ask("COPY", "longest", "to", "REPLACE"))
        self.assertEqual(*self.ask("RENAME", "to", "longest"))
        self.assertEqual(self.ours.ask("STRLEN", "longest"), b":%d\r\n" % len(longest))
        self.ask("DEL", "long", "longest")

    def test_an_order_of_keys(self):
        names = [f"order:{i}" for i in range(200)]
        self.assertEqual(*self.ask("MSET", *(word for name in names for word in (name, "v"))))
        got, wanted = self.ask("KEYS", "order:*")
        self.assertNotEqual(got, wanted)
        self.assertEqual(sorted(elements(got)), sorted(elements(wanted)))
        self.assertEqual(len(elements(got)), 200)
        found = {self.ours.ask("RANDOMKEY") for _ in range(300)}
        self.assertGreater(len(found), 20)
        for reply in found:
            self.assertEqual(self.theirs.ask("EXISTS", reply.split(b"\r\n", 1)[1][:-2]), b":1\r\n")

    def test_a_count_behind_an_expiry(self):
        """Neither tells when it counts what has expired; a key that was looked for counts in neither."""
        before = self.ask("DBSIZE")
        self.assertEqual(*self.ask("SET", "brief", "v", "PX", "1"))
        counts = self.ask("DBSIZE")
        for count, one in zip(counts, before):
            self.assertIn(int(count[1:]) - int(one[1:]), (0, 1))
        time.sleep(0.05)
        self.assertEqual(*self.ask("EXISTS", "brief"))
        self.assertEqual(*self.ask("KEYS", "brie*"))

    def test_a_key_that_came_and_went(self):
        """Nothing is left behind by which it could be told; what was there and is made again is told."""
        for before, wanted_of_us in (
            (["DEL", "fleeting"], b"*1\r\n+OK\r\n"),
            (["SET", "fleeting", "v"], b"*-1\r\n"),
        ):
            self.ask(*before)
            self.assertEqual(*self.ask("WATCH", "fleeting"))
            for words in (
                ["SET", "fleeting", "v"],
                ["DEL", "fleeting"],
                ["MULTI"],
                ["SET", "guarded", "v"],
            ):
                self.assertEqual(*self.ask(*words))
            got, wanted = self.ask("EXEC")
            self.assertEqual((got, wanted), (wanted_of_us, b"*-1\r\n"))
            for one in (self.ours, self.theirs):
                one.ask("DEL", "guarded", "fleeting")

    def test_what_cannot_be_queued(self):
        for words in (
            ["KEYS", "*"],
            ["RANDOMKEY"],
            ["DBSIZE"],
            ["SCAN", "0"],
            ["LCS", "a", "b"],
            ["FLUSHALL"],
            ["SUBSCRIBE", "a"],
            ["HELLO", "2"],
            ["CLIENT", "REPLY", "ON"],
            ["CLIENT", "LIST"],
            ["CLIENT", "KILL", "ID", "0"],
            ["CONFIG", "RESETSTAT"],
            ["MEMORY", "USAGE", "a"],
            ["OBJECT", "ENCODING", "a"],
        ):
            self.assertEqual(*self.ask("MULTI"))
            got, wanted = self.ask(*words)
            self.assertEqual(got, b"-ERR Command not allowed inside a transaction\r\n")
            self.assertEqual(wanted, b"+QUEUED\r\n")
            self.assertEqual(*self.ask("SET", "unqueued", "v"))
            got = self.ours.ask("EXEC")
            self.assertEqual(got, b"-EXECABORT Transaction discarded because of previous errors.\r\n")
            self.theirs.ask("DISCARD")
            self.assertEqual(self.ours.ask("EXISTS", "unqueued"), b":0\r\n")

    def test_a_large_transaction(self):
        limits = (
            b"at most 4096 keys, of which one that is read and written counts twice, and 16 MiB of keys"
        )
        queues = {
            "keys": [["SET", f"l{i}", "v"] for i in range(4097)],
            "bytes": [["SET", f"l{i}", "v" * (1 << 20)] for i in range(17)],
            "both": [["INCR", f"l{i}"] for i in range(2049)],
            "a long value": [["APPEND", "l0", "v" * (7 << 20)]] * 3,
        }
        for name, queue in queues.items():
            with self.subTest(name):
                self.theirs.ask("DEL", *(f"l{i}" for i in range(4097)))
                self.assertEqual(*self.ask("MULTI"))
                said = [self.ask(*words) for words in queue]
                got, wanted = self.ask("EXEC")
                self.assertTrue(any(limits in one for one, _ in said) or limits in got, got[:200])
                self.assertEqual(got[:10], b"-EXECABORT")
                self.assertEqual(wanted[:1], b"*")
                self.assertEqual(self.ours.ask("EXISTS", "l0", "l1"), b":0\r\n")
        self.theirs.ask("DEL", *(f"l{i}" for i in range(4097)))
        # As many as there may be.
        for queue in (queues["keys"][:4096], queues["both"][:2048], queues["bytes"][:15]):
            self.assertEqual(*self.ask("MULTI"))
            for words in queue:
                self.assertEqual(*self.ask(*words))
            self.assertEqual(*self.ask("EXEC"))
            self.assertEqual(*self.ask("DEL", *(words[1] for words in queue)))
        got, wanted = self.ask("WATCH", *(f"l{i}" for i in range(4097)))
        self.assertIn(limits, got)
        self.assertEqual(wanted, b"+OK\r\n")
        # It does not run as if it were guarded.
        self.assertEqual(*self.ask("MULTI"))
        self.assertEqual(*self.ask("SET", "l0", "v"))
        got, wanted = self.ask("EXEC")
        self.assertIn(limits, got)
        self.assertEqual(wanted, b"*1\r\n+OK\r\n")
        self.theirs.ask("DEL", "l0")

    def test_a_number_of_a_connection(self):
        for reply in self.ask("CLIENT", "ID"):
            self.assertRegex(reply, rb"^:\d+\r\n$")


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
