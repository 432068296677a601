#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every line of the tables in docs/security.md and docs/promises.md names tests, each of which exists, and
has passed in the build folder's last run; and every test of this folder stands in a line.

A test that was skipped, or that has not run since its program was built, shows nothing. Its lines are listed
then, and this counts as skipped (exit code 77); with REFRACT_ALL_SHOWN set, as CI has it, as failed. Tests in
tests/verbs run in a machine of their own, whose results are not here.

Usage: table_test.py FOLDER_OF_THE_PROJECT BUILD_FOLDER [unittest arguments]
"""

import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

PROJECT = pathlib.Path()
BUILD = pathlib.Path()
NOT_SHOWN = 77
PAGES = ("docs/security.md", "docs/promises.md")
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


def outcomes_of(results):
    """What came of each test of one program. Of a contract's instances it is enough that one has passed."""
    outcomes = {}
    for suite in json.loads(results.read_text(encoding="utf-8")).get("testsuites", []):
        for test in suite["testsuite"]:
            name = re.sub(r"^\w+/", "", suite["name"]).split("/")[0] + "." + test["name"].split("/")[0]
            has_passed = test["result"] == "COMPLETED" and not test.get("failures")
            has_passed = has_passed or outcomes.get(name) == "passed"
            outcomes[name] = "passed" if has_passed else test["result"].lower()
    return outcomes


def passed_tests():
    """Of the programs as they are built now. And those that were skipped."""
    passed, skipped = set(), set()
    for results in (BUILD / "results").glob("*.json"):
        program = BUILD / "bin" / results.stem
        if not program.exists() or program.stat().st_mtime > results.stat().st_mtime:
            continue
        for name, outcome in outcomes_of(results).items():
            (passed if outcome == "passed" else skipped).add(name)
    return passed, skipped - passed


def lines_not_shown():
    """(what it tries, test, why) of each line of the tables that is not shown here."""
    elsewhere = tests_below("tests/verbs")
    scripts = {name for folder in ("apps", "tests") for path in (PROJECT / folder).rglob("*_test.py")
               for name in tests_of_script(path)}
    passed, skipped = passed_tests()
    for _, cells in rows():
        for name in NAME.findall(cells[-1]):
            if name not in passed | elsewhere | scripts:
                yield cells[0], name, "was skipped" if name in skipped else "has not run since it was built"


def rows(*pages):
    """The cells of each line of a table that has a column "shown by", of these pages or all."""
    for page in pages or PAGES:
        width = 0
        for line in (PROJECT / page).read_text(encoding="utf-8").splitlines():
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
        known = tests_below("refract", "apps", "python", "tests")
        count = 0
        for width, cells in rows():
            count += 1
            self.assertEqual(len(cells), width, cells)
            names = NAME.findall(cells[-1])
            self.assertTrue(names, f"no test in the line: {cells}")
            self.assertEqual([name for name in names if name not in known], [], "there are no such tests")
        self.assertGreater(count, 60, "the tables were not found")

    def test_every_test_of_this_folder_stands_in_a_line(self):
        named = {name for _, cells in rows() for name in NAME.findall(cells[-1])}
        mine = tests_below("tests/security") - tests_of_script(pathlib.Path(__file__))
        self.assertGreater(len(mine), 15)
        self.assertEqual(sorted(mine - named), [])


class Outcomes(unittest.TestCase):
    def test_a_skipped_test_shows_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "some_test.json"
            results.write_text(json.dumps({"testsuites": [
                {"name": "Own", "testsuite": [{"name": "passes", "result": "COMPLETED"},
                                              {"name": "skips", "result": "SKIPPED"},
                                              {"name": "fails", "result": "COMPLETED", "failures": [{}]}]},
                {"name": "Shm/Contract", "testsuite": [{"name": "holds/0", "result": "SKIPPED"},
                                                       {"name": "holds/1", "result": "COMPLETED"}]}]}),
                encoding="utf-8")
            outcomes = outcomes_of(results)
        self.assertEqual({name for name, outcome in outcomes.items() if outcome == "passed"},
                         {"Own.passes", "Contract.holds"})


if __name__ == "__main__":
    PROJECT, BUILD = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
    if not unittest.main(exit=False).result.wasSuccessful():
        sys.exit(1)
    missing = list(lines_not_shown())
    for tries, test, why in missing:
        print(f"not shown here: {tries}: {test} {why}")
    if missing:
        sys.exit(1 if os.environ.get("REFRACT_ALL_SHOWN") else NOT_SHOWN)
