# SPDX-License-Identifier: Apache-2.0
"""The sources that a change may give another meaning: those that it changes, and those that include what it
changes, however many headers lie between."""

import os
import sys

from tidy.tree import includes, load

# A change of these concerns every source: what is looked for, and how sources are compiled.
CONCERN_ALL = (".clang-tidy", "scripts/lint", "cmake/toolchain.cmake", "CMakePresets.json", "CMakeLists.txt")


def includers(tree):
    """For each file of ours, the files that include it."""
    found = {}
    for path in tree.cpp():
        for _, included in includes(tree, path):
            found.setdefault(included, []).append(path)
    return found


def concerned(tree, changed):
    """The files that `changed` gives another meaning, or None: all of them."""
    if any(path in CONCERN_ALL for path in changed):
        return None
    # The flags of a folder are those of what lies in it and below.
    folders = tuple(os.path.dirname(path) + "/" for path in changed if path.endswith("/CMakeLists.txt"))
    seen = set(changed) | {path for path in tree.cpp() if path.startswith(folders)}
    known_by, todo = includers(tree), list(seen)
    while todo:
        for path in known_by.get(todo.pop(), ()):
            if path not in seen:
                seen.add(path)
                todo.append(path)
    return {path for path in seen if path in tree.files}


def affected(tree, changed):
    """The sources among them, or None: all of them."""
    files = concerned(tree, changed)
    return None if files is None else sorted(path for path in files if path.endswith(".cc"))


def main():
    """Changed paths come in by lines; sources go out by lines, or `all`."""
    sources = affected(load(), sys.stdin.read().split("\n"))
    print("all" if sources is None else "\n".join(sources))


if __name__ == "__main__":
    main()
