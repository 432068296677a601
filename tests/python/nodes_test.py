#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.objects on three nodes that share their objects: copies, places, which node is the quickest, and
what is said while a node is stopped.

Usage: nodes_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import MIB, Programs, begin, node_of_objects, until  # noqa: E402

from listed_nodes import NAMES, ListedNodes  # noqa: E402

begin()
import refract  # noqa: E402
from refract import objects  # noqa: E402


def answer_of(call):
    """What it returns, or the class of what it raises."""
    try:
        return call()
    except refract.Error as error:
        return type(error)


class SharedNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        listed = ListedNodes()
        cls.addClassCleanup(listed.cleanup)
        cls.nodes, cls.clients = {}, {}
        for name in NAMES:
            cls.nodes[name] = node_of_objects("64MiB", *listed.flags(name))
            cls.addClassCleanup(cls.nodes[name].__exit__)
            cls.clients[name] = objects.connect(cls.nodes[name].socket)
            cls.addClassCleanup(cls.clients[name].close)
        # Until all homes have heard from all.
        for client in cls.clients.values():
            until(lambda of=client: all(answer_of(lambda n=number: of.where(f"none {n}")) is refract.NotFound
                                        for number in range(20)))

    def setUp(self):
        self.a, self.b, self.c = (self.clients[name] for name in NAMES)

    def test_a_put_may_have_copies_and_their_number_is_changed(self):
        birth = self.a.put("copied", bytes(MIB), copies=2, copies_timeout=60)
        self.assertEqual(self.a.copies_made(), 2)
        places = self.c.where("copied")
        self.assertEqual((places.birth, places.size, places.copies_wanted, places.copies), (birth, MIB, 2, 2))
        self.assertEqual(len(places.nodes), 2)
        self.assertIn("a", places.nodes)
        three = self.b.set_copies("copied", 3, timeout=60)
        self.assertEqual(three, (birth, 3, 3))
        self.assertEqual(sorted(self.a.where("copied").nodes), ["a", "b", "c"])
        # More than there are nodes: the object is there, with fewer.
        self.b.put("five", b"12345", copies=5, copies_timeout=0)
        self.assertLess(self.b.copies_made(), 4)
        self.assertEqual(self.a.set_copies("copied", 0).wanted, 0)
        for copies in (17, -1, "two"):
            with self.assertRaises((refract.InvalidArgument, TypeError)):
                self.a.put("refused", b"", copies=copies)
        self.assertFalse(self.a.contains("refused"))

    def id_decided_by(self, name, begin="id"):
        """One that this node decides about."""
        for number in range(1000):
            row = self.nodes["a"].run("cluster", "--nodes", "1", "--json", f"{begin} {number}")
            if json.loads(row.stdout)["nodes"] == [name]:
                return f"{begin} {number}"
        raise AssertionError("no id has this home")

    def test_copies_are_brought_and_a_delete_names_nodes_that_it_did_not_reach(self):
        name = self.id_decided_by("b")
        self.a.put(name, b"12345")
        self.assertEqual(self.b.where(name).nodes, ["a"])
        outcomes = self.c.prefetch([name, "none"])
        self.assertIsNone(outcomes[0])
        self.assertIsInstance(outcomes[1], refract.NotFound)
        until(lambda: sorted(self.b.where(name).nodes) == ["a", "c"])
        with self.nodes["c"].stopped_server():
            # Read where it lies, by a client of its host.
            self.assertEqual(bytes(self.c.get(name)), b"12345")
            self.a.delete(name)
            self.assertEqual(self.a.missed(), ["c"])
        until(lambda: answer_of(lambda: self.c.get(name)) is refract.NotFound)

    def test_brings_an_object_to_many_nodes_at_once(self):
        data = os.urandom(2 * MIB + 1)
        self.a.put("wanted", data)
        done = self.b.broadcast("wanted")
        self.assertEqual(done, ([("a", None), ("b", None), ("c", None)], 0, 0))
        self.assertEqual(sorted(self.a.where("wanted").nodes), ["a", "b", "c"])
        self.assertEqual(bytes(self.c.get("wanted")), data)
        self.assertEqual(self.c.broadcast("wanted", ["c", "a"], timeout=None).nodes,
                         [("c", None), ("a", None)])
        with self.assertRaises(refract.NotFound):
            self.a.broadcast("nothing of the kind")
        with self.assertRaises(refract.InvalidArgument) as caught:
            self.a.broadcast("wanted", iter(["b", "nowhere", "d"]))
        self.assertIn("no node of the list is called 'nowhere', 'd'", str(caught.exception))
        for nodes in ([], [""], ["x" * 256], ["b"] * 256):
            with self.assertRaises(refract.InvalidArgument):
                self.a.broadcast("wanted", nodes)
        for nodes in ("b", [1], 1):
            with self.assertRaises(TypeError):
                self.a.broadcast("wanted", nodes)
        name = self.id_decided_by("b", "small")
        self.a.put(name, b"12345")
        with self.nodes["c"].stopped_server():
            done = self.a.broadcast(name, timeout=1)
            self.assertEqual((done.missed, done.nodes[:2]), (1, [("a", None), ("b", None)]))
            self.assertEqual(done.nodes[2].node, "c")
            self.assertIsInstance(done.nodes[2].error, (refract.DeadlineExceeded, refract.Away))

    def test_ranks_the_nodes_by_the_time_in_which_they_could_have_objects(self):
        self.b.put("first", bytes(MIB))
        rank = self.a.rank(["first", "nowhere"], timeout=60)
        self.assertIsNone(rank.errors[0])
        self.assertIsInstance(rank.errors[1], refract.NotFound)
        self.assertEqual(rank.nodes[0], ("b", None, 0, 0, 0.0, False, 0))
        self.assertEqual(sorted(one.node for one in rank.nodes), ["a", "b", "c"])
        for one in rank.nodes[1:]:
            self.assertEqual((one.error, one.missing_objects, one.missing_bytes), (None, 1, MIB))
            self.assertGreater(one.seconds, 0)
        self.assertEqual(self.c.prefetch(["first"]), [None])
        self.assertEqual([one.node for one in self.a.rank(["first"], timeout=60).nodes], ["b", "c", "a"])
        self.b.put("second", bytes(MIB))
        of_c = next(one for one in self.a.rank(["second"], None).nodes if one.node == "c")
        self.assertFalse(of_c.is_guessed, "a pull has measured this path")
        with self.nodes["c"].stopped_server():
            last = self.b.rank(["first"], timeout=0.3).nodes[-1]
            self.assertEqual((last.node, last.missing_objects), ("c", 0))
            self.assertIsInstance(last.error, (refract.DeadlineExceeded, refract.Away))
        for ids in ([], ["x"] * 257):
            with self.assertRaises(refract.InvalidArgument):
                self.a.rank(ids)
        with self.assertRaises(TypeError):
            self.a.rank("first")

    def test_a_node_alone_says_that_it_shares_nothing(self):
        with node_of_objects() as alone, objects.connect(alone.socket) as client:
            for call in (lambda: client.put("x", b"", copies=2), lambda: client.set_copies("x", 2),
                         lambda: client.where("x"), lambda: client.rank(["x"]),
                         lambda: client.broadcast("x")):
                with self.assertRaises(refract.Unsupported) as caught:
                    call()
                self.assertIn("--cluster-nodes", str(caught.exception))
            self.assertFalse(client.contains("x"))
            client.put("x", b"", copies=0)


if __name__ == "__main__":
    assert Programs.refractd
    unittest.main()
