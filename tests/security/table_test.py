#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every line of the tables in docs/security.md names tests, each of which exists; and every test of this
folder stands in a line.

Usage: table_test.py FOLDER_OF_THE_PROJECT [unittest arguments]
"""

import pathlib
import re
import sys
import unittest

PROJECT = pathlib.Path()
GTEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
PYTHON = re.compile(r"^class (\w+)|^    def (test_\w+)\(", re.MULTILINE)
NAME = re.compile(r"`(\w+\.\w+)`")


def tests_of_source(path):
    return {f"{suite}.{claim}" for suite, claim in GTEST.findall(path.read_text(encoding="utf-8"))}


def tests_of_script(path):
    names, suite = set(), ""
    for found in PYTHON.finditer(path.read_text(encoding="utf-8")):
        suite = found.group(1) or suite
        if found.group(2):
            names.add(f"{suite}.{found.group(2)}")
    return names


def tests_below(*folders):
    names = set()
    for folder in folders:
        for path in (PROJECT / folder).rglob("*_test.cc"):
            names |= tests_of_source(path)
        for path in (PROJECT / folder).rglob("conformance_*.cc"):
            names |= tests_of_source(path)
        for path in (PROJECT / folder).rglob("*_test.py"):
            names |= tests_of_script(path)
    return names


def rows():
    """The cells of each line of a table that has a column "shown by"."""
    width = 0
    for line in (PROJECT / "docs/security.md").read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[-1] == "shown by":
            width = len(cells)
        elif width and not set(line) <= set("|- "):
            yield width, cells


class Table(unittest.TestCase):
    def test_every_line_names_tests_that_exist(self):
        known = tests_below("refract", "apps", "tests")
        count = 0
        for width, cells in rows():
            count += 1
            self.assertEqual(len(cells), width, cells)
            names = NAME.findall(cells[-1])
            self.assertTrue(names, f"no test in the line: {cells}")
            self.assertEqual([name for name in names if name not in known], [], "there are no such tests")
        self.assertGreater(count, 40, "the tables were not found")

    def test_every_test_of_this_folder_stands_in_a_line(self):
        named = {name for _, cells in rows() for name in NAME.findall(cells[-1])}
        mine = tests_below("tests/security") - tests_of_script(pathlib.Path(__file__))
        self.assertGreater(len(mine), 15)
        self.assertEqual(sorted(mine - named), [])


if __name__ == "__main__":
    PROJECT = pathlib.Path(sys.argv.pop(1))
    unittest.main()
