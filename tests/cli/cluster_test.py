#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract cluster as a person uses it: the list, and the slots and nodes of keys.

Usage: cluster_test.py REFRACTD REFRACT [unittest arguments]
"""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from node import Node, Programs, run_client  # noqa: E402

DONE, NO, WRONG, NO_NODE = range(4)
LIST = "version=7,b=10.0.0.2:7400,a=10.0.0.1:7400,long-name=[fd00::3]:7400"


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = Node("--cluster-nodes", LIST, "--cluster-self", "b", "--listen-address", "127.0.0.1:0")

    @classmethod
    def tearDownClass(cls):
        cls.node.__exit__()

    def do(self, *words):
        done = self.node.run("cluster", *words)
        self.assertEqual(done.returncode, DONE, done.stderr.decode())
        return done.stdout.decode()

    def test_shows_the_list_and_which_node_was_asked(self):
        wanted = ("version 7, 3 nodes; * is the one that was asked\n"
                  "  a          10.0.0.1:7400\n"
                  "* b          10.0.0.2:7400\n"
                  "  long-name  [fd00::3]:7400\n")
        self.assertEqual(self.do(), wanted)
        far = run_client("--address", f"tcp:{self.node.tcp_address}", "cluster")
        self.assertEqual(far.stdout.decode(), wanted)
        self.assertEqual(json.loads(self.do("--json")), {
            "version": 7, "self": "b",
            "nodes": [{"name": "a", "address": "10.0.0.1:7400"}, {"name": "b", "address": "10.0.0.2:7400"},
                      {"name": "long-name", "address": "[fd00::3]:7400"}]})

    def test_says_slot_and_nodes_of_each_key(self):
        rows = [line.split() for line in self.do("foo", "bar", "{foo}x").splitlines()]
        self.assertEqual([row[0] for row in rows], ["12182", "5061", "12182"])
        self.assertEqual([row[-1] for row in rows], ["foo", "bar", "{foo}x"])
        for row in rows:
            self.assertEqual(sorted(row[1:4]), ["a", "b", "long-name"])
        self.assertEqual(rows[0][1:4], rows[2][1:4])
        one = json.loads(self.do("--nodes", "1", "--json", "foo"))
        self.assertEqual(one, {"key": "foo", "slot": 12182, "nodes": [rows[0][1]]})
        many = json.loads(self.do("--nodes", "1000", "--json", "foo"))
        self.assertEqual(many["nodes"], rows[0][1:4])

    def test_keys_of_any_bytes_do_not_reach_a_terminal_as_they_are(self):
        shown = self.do("a\x1b[31m\nb")
        self.assertEqual(len(shown.splitlines()), 1)
        self.assertIn("a\\x1b[31m\\x0ab", shown)
        self.assertEqual(json.loads(self.do("--json", "a\x1b\n"))["key"], "a\x1b\n")

    def test_says_what_is_missing(self):
        with Node() as alone:
            for words in ((), ("key",), ("--json",)):
                done = alone.run("cluster", *words)
                self.assertEqual(done.returncode, NO)
                self.assertEqual(done.stdout, b"")
                self.assertIn(b"the node has no list of nodes", done.stderr)
                self.assertIn(b"--cluster-nodes", done.stderr)
        self.assertEqual(self.node.run("cluster", "--nodes", "x", "key").returncode, WRONG)
        self.assertEqual(run_client("cluster", socket="/nowhere/node.sock").returncode, NO_NODE)


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
