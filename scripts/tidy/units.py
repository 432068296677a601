# SPDX-License-Identifier: Apache-2.0
"""What clang-tidy reads so that it has seen certain sources. Those that a unit has together are read at once:
most of its work for a source is to read what that includes."""

import json
import os
import re
import sys

from tidy.tree import ROOT

# The folders of `cmake --preset thread`, with units, and of `cmake --preset lint`, without.
UNITS, ALONE = "build-thread", "build-lint"
# A unit takes as long as two or three of its sources.
ENOUGH = 3
INCLUDED = re.compile(r'^#include "([^"]+[.]cc)"$', re.MULTILINE)

# Checks that are added to those of .clang-tidy, or taken from them. A unit includes sources.
OF_UNIT = "-bugprone-suspicious-include"
# What the compiler itself says; one check that costs nothing, since there must be one.
OF_COMPILER = "-*,clang-diagnostic-*,bugprone-suspicious-include"


def readings(wanted, units):
    """Rows of a build folder, checks and a path, by which each of `wanted` is read with all checks, in one
    of `units` (a path of each, with its sources) or alone. What is read in a unit only is compiled alone,
    too: no build does that, and it may take an include from its neighbours."""
    wanted, left, rows = set(wanted), set(wanted), []
    for unit, sources in units.items():
        if len(wanted.intersection(sources)) >= ENOUGH:
            rows.append((UNITS, OF_UNIT, unit))
            left.difference_update(sources)
    rows += [(ALONE, "", path) for path in sorted(left)]
    return rows + [(ALONE, OF_COMPILER, path) for path in sorted(wanted - left)]


def units_of(folder):
    """The units that a build folder compiles, with their sources."""
    units = {}
    with open(os.path.join(ROOT, folder, "compile_commands.json"), encoding="utf-8") as file:
        paths = [os.path.relpath(command["file"], ROOT) for command in json.load(file)]
    for path in paths:
        if "/Unity/" in path:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                units[path] = [os.path.relpath(source, ROOT) for source in INCLUDED.findall(file.read())]
    return units


def main():
    """Sources come in by lines; what to read goes out, three words of a reading by lines."""
    wanted = sys.stdin.read().split()
    units = units_of(UNITS)
    if not units:
        sys.exit(f"lint: there is no unit in {UNITS}")
    rows = readings(wanted, units)
    print("\n".join(word for row in rows for word in row))


if __name__ == "__main__":
    main()
