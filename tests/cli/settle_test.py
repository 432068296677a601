#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract txn settle as a person uses it: the node that decides some transactions is gone for good.

Usage: settle_test.py REFRACTD REFRACT [unittest arguments]
"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from listed_nodes import NAMES, ListedNodes  # noqa: E402
from node import PATIENCE_S, Node, Programs, clean_environment, run_client, stands  # noqa: E402

DONE, NO, WRONG = range(3)


class Settle(unittest.TestCase):
    def setUp(self):
        self.listed = ListedNodes()
        self.addCleanup(self.listed.cleanup)
        self.nodes = {}
        for name in NAMES:
            self.nodes[name] = Node("--kv-copies", "1", *self.listed.flags(name))
            self.addCleanup(self.nodes[name].__exit__)

    def settle(self, *words):
        return self.nodes["b"].run("txn", "settle", *words)

    def waiting(self):
        done = self.settle("--json")
        self.assertEqual(done.returncode, DONE, done.stderr.decode())
        return json.loads(done.stdout)["waiting"]

    def until(self, condition):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)

    def lose_a(self):
        """In the middle of transactions that it decides, with their client."""
        every = ",".join(self.listed.addresses.values())
        bank = subprocess.Popen([Programs.refract, "--address", f"refract://{every}", "bank",
                                 "--threads", "8", "--for", "1h"], env=clean_environment(),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            home = self.nodes["a"]
            # Until accounts are moved between.
            self.until(lambda: b"bank" in home.run("scan").stdout)
            time.sleep(0.5)
            keys = [key for key in home.run("scan").stdout.decode().splitlines() if "bank" in key]
            for process in (home.server(), home.process.pid):
                os.kill(process, signal.SIGSTOP)
                self.until(lambda of=process: stands(of))
            time.sleep(0.2)
        finally:
            bank.kill()
            bank.wait()
        for process in (home.server(), home.process.pid):
            os.kill(process, signal.SIGKILL)
        lines = self.nodes["b"].run("cluster", "--nodes", "1", "--json", *keys).stdout.splitlines()
        return [row["key"] for row in map(json.loads, lines) if row["nodes"] != ["a"]]

    def test_ends_what_waits_for_a_node_that_is_gone_for_good(self):
        self.assertEqual(self.settle().stdout, b"no transaction waits for a node\n")
        refused = self.settle("--home", "a", "--as", "never")
        self.assertEqual(refused.returncode, NO)
        self.assertIn(b"node a answers", refused.stderr)
        keys = self.lose_a()
        self.assertTrue(keys)
        self.until(lambda: any(row["home_silent_seconds"] > 0 for row in self.waiting()))
        rows = self.waiting()
        self.assertEqual({row["home"] for row in rows}, {"a"})
        self.assertLessEqual({row["node"] for row in rows}, {"b", "c"})
        shown = self.settle()
        self.assertIn(rows[0]["transaction"].encode(), shown.stdout)
        self.assertIn(b"node a does not answer", shown.stderr)
        early = self.settle("--home", "a", "--as", "never")
        self.assertEqual(early.returncode, NO)
        self.assertIn(b"in the last 10 s", early.stderr)
        self.until(lambda: all(row["home_silent_seconds"] > 10 for row in self.waiting()))
        ended = self.settle("--home", "a", "--as", "never", "--json")
        self.assertEqual(ended.returncode, DONE, ended.stderr.decode())
        self.assertEqual(json.loads(ended.stdout), {"ended": len(rows), "as": "never"})
        self.assertEqual(self.waiting(), [])
        # All that the other nodes have can be written.
        for key in keys:
            done = self.nodes["b"].run("put", key, "1")
            self.assertEqual(done.returncode, DONE, done.stderr.decode())

    def test_says_what_is_wrong(self):
        for words, said in (
                (("--home", "a"), b"belong together"),
                (("--home", "a", "--as", "perhaps"), b"--as is never or happened"),
                (("--home", "z", "--as", "never"), b"the list has no node")):
            done = self.settle(*words)
            self.assertEqual(done.returncode, WRONG, done.stdout)
            self.assertIn(said, done.stderr)
        mixed = self.nodes["b"].run("txn", "-", "--home", "a", "--as", "never")
        self.assertEqual(mixed.returncode, WRONG)
        with Node() as alone:
            done = alone.run("txn", "settle")
            self.assertEqual(done.returncode, NO)
            self.assertIn(b"wait for no other", done.stderr)
        self.assertEqual(run_client("txn", "settle", socket="/nowhere/node.sock").returncode, 3)


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
