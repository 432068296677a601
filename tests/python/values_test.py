#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Values in objects: their bytes are those of docs/formats/pickled.md, and bodies that lie harm no reader.

Usage: values_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE FOLDER_OF_THE_PROJECT [unittest arguments]
"""

import datetime
import os
import pickle
import random
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import begin, node_of_objects  # noqa: E402

PROJECT = os.path.abspath(sys.argv.pop(4))
begin()
import numpy  # noqa: E402
import refract  # noqa: E402
from refract import objects  # noqa: E402

SEED = 20230111


def golden_bytes():
    """The block of the page, as bytes."""
    with open(os.path.join(PROJECT, "docs/formats/pickled.md"), encoding="utf-8") as page:
        lines = page.read().split("```golden\n")[1].split("```")[0].splitlines()
    image = bytearray()
    for line in lines:
        at, *words = line.split("   ")[0].split()
        image.extend(bytes(int(at, 16) - len(image)))
        image.extend(int(word, 16) for word in words)
    return bytes(image)


class Tree:
    """A class of the program's own, with arrays at two depths."""

    def __init__(self, depth):
        self.array = numpy.arange(depth * 100)
        self.below = [Tree(depth - 1)] * 2 if depth else []

    def __eq__(self, other):
        return (self.array == other.array).all() and self.below == other.below


class Values(unittest.TestCase):
    def setUp(self):
        self.node = node_of_objects()
        self.addCleanup(self.node.__exit__)
        self.client = objects.connect(self.node.socket)
        self.addCleanup(self.client.close)

    def test_are_byte_for_byte_what_the_page_shows(self):
        self.client.put_value("v", pickle.PickleBuffer(b"red"))
        self.assertEqual(bytes(self.client.get("v")), golden_bytes())
        self.client.put("same", golden_bytes())
        self.assertEqual(bytes(self.client.get_value("same")), b"red")

    def test_of_the_program_s_own_classes_come_back(self):
        values = [Tree(5), {"when": datetime.datetime(2023, 1, 11), "where": (1, {2, 3})}, numpy.float32(1.5),
                  numpy.ma.masked_array([1, 2], mask=[True, False]).filled(), bytearray(b"x" * 100_000),
                  [numpy.arange(i) for i in range(2000)]]
        for number, value in enumerate(values):
            self.client.put_value(f"{number}", value)
            read = self.client.get_value(f"{number}")
            if number == 5:
                self.assertTrue(all((a == b).all() for a, b in zip(value, read)))
            else:
                numpy.testing.assert_equal(read, value)

    def test_one_array_is_one_buffer_wherever_it_is_used(self):
        array = numpy.ones(100_000)
        self.client.put_value("v", [array, array, {"again": array}])
        first, second, third = self.client.get_value("v")
        self.assertIs(first, second)
        self.assertIs(first, third["again"])
        self.assertLess(len(self.client.get("v")), array.nbytes * 1.1)

    def test_that_lie_are_malformed_or_smaller_and_harm_no_reader(self):
        """Header and pieces are changed; the stream, which a reader must trust, is not."""
        self.client.put_value("v", [numpy.arange(100), numpy.arange(50)])
        good = bytes(self.client.get("v"))
        chance = random.Random(SEED)
        outcomes = {"value": 0, "malformed": 0, "refused": 0}
        for turn in range(2000):
            body = bytearray(good)
            at = chance.randrange(0, 56)
            if turn % 2:
                body[at] = chance.randrange(256)
            else:
                word = chance.choice([0, 1, 64, 2**31, 2**32, 2**63, 2**64 - 1])
                struct.pack_into("<Q", body, at // 8 * 8, word)
            with self.client.create(f"{turn}", len(body)) as new:
                memoryview(new)[:] = body
            try:
                value = self.client.get_value(f"{turn}")
                outcomes["value"] += 1
                self.assertLess(sum(int(each.sum()) for each in value), 2**63)
            except refract.Malformed:
                outcomes["malformed"] += 1
            except Exception:  # Of pickle and numpy, about a buffer that is missing or too short.
                outcomes["refused"] += 1
            self.client.delete(f"{turn}")
        self.assertGreater(outcomes["malformed"], 100, outcomes)


if __name__ == "__main__":
    unittest.main()
