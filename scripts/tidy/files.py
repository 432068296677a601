# SPDX-License-Identifier: Apache-2.0
"""What every file, header and test owes to the repository."""

import fnmatch
import os
import re

from tidy.rules import FOLDER_LIMIT
from tidy.tree import Violation, closing_brace, includes, is_test, line_of


def check_dead_files(tree):
    """dead-file: each header is included by some file, each source is built by a CMakeLists.txt"""
    included = {name for path in tree.paths(".h", ".cc", ".def", ".inc") for _, name in includes(tree, path)}
    angle = re.compile(r"#include <(refract/[^>]+)>")  # An example, built against the installed headers.
    included |= {name for path in tree.cpp() for name in angle.findall(tree.files[path])}
    for path in tree.paths(".h", ".def", ".inc"):
        if path not in included:
            yield Violation(path, 1, "dead-file", "nothing includes this file")
    for path in tree.paths(".cc"):
        if not is_built(tree, path):
            yield Violation(path, 1, "dead-file", "no CMakeLists.txt builds this file")


def is_built(tree, path):
    folder, name = os.path.split(path)
    if path.endswith("_bench.cc") and folder.startswith("refract/"):
        return "_bench.cc" in tree.files.get("bench/CMakeLists.txt", "")
    text = tree.files.get(f"{folder}/CMakeLists.txt", "")
    layers = re.findall(r"^\s*refract_layer\(([^)]*)\)", text, re.MULTILINE)
    if any("ROOMS" not in layer for layer in layers) or "." in rooms_in(text):
        return True
    globs = re.findall(r"[\w./${}*-]*\*[\w.*-]*\.cc\b", text)
    if name in text or any(fnmatch.fnmatch(name, os.path.basename(glob)) for glob in globs):
        return True
    parent = folder
    while parent:
        parent = os.path.dirname(parent)
        below = path[len(parent) + 1:] if parent else path
        text = tree.files.get(f"{parent}/CMakeLists.txt" if parent else "CMakeLists.txt", "")
        if below in text or os.path.dirname(below) in rooms_in(text):
            return True
    return False


def rooms_in(text):
    """The folders whose sources a CMakeLists.txt takes: after ROOMS, and in refract_glob."""
    lists = re.findall(r"\bROOMS((?:\s+[a-z_/.]+)+)", text)
    lists += re.findall(r"\brefract_glob\(\w+ \S+((?:\s+[a-z_/.]+)+)", text)
    return {room for words in lists for room in words.split()}


def check_folder_size(tree):
    """folder-size: a folder has at most 45 files; pages of docs/ are found by their number"""
    counts = {}
    for path in tree.files:
        folder = os.path.dirname(path)
        if not folder.startswith("docs/") and "/corpus/" not in path:
            counts[folder] = counts.get(folder, 0) + 1
    for folder, count in sorted(counts.items()):
        if count > FOLDER_LIMIT:
            yield Violation(folder, 1, "folder-size",
                            f"{count} files, {FOLDER_LIMIT} are allowed: make rooms that show the design")


SPDX_SUFFIXES = (".h", ".cc", ".def", ".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile", ".clang-tidy",
                 ".clang-format")


def check_licence_line(tree):
    """spdx: the first line names the licence (the second, below a #! line)"""
    for path in sorted(tree.files):
        lines = tree.lines(path) or [""]
        is_script = lines[0].startswith("#!")
        if not (path.endswith(SPDX_SUFFIXES) or is_script):
            continue
        mark = "// " if path.endswith((".h", ".cc", ".def")) else "# "
        line = lines[1] if is_script and len(lines) > 1 else lines[0]
        if line != mark + "SPDX-License-Identifier: Apache-2.0":
            yield Violation(path, 1, "spdx", f"begin with '{mark}SPDX-License-Identifier: Apache-2.0'")


def check_pragma_once(tree):
    """pragma-once: a header begins with it, after its contract"""
    for path in tree.paths(".h"):
        if not re.search(r"(?m)^#pragma once$", tree.files[path]):
            yield Violation(path, 1, "pragma-once", "this header has no '#pragma once'")


def check_folder_names(tree):
    """name: nothing is called common, util, misc or helpers"""
    for path in sorted(tree.files):
        for part in path.split("/"):
            if re.fullmatch(r"(common|core|utils?|misc|helpers?)(_test|_bench|_fuzz)?(\.\w+)?", part):
                yield Violation(path, 1, "name", f"'{part}' says nothing: name it after what it is about")


def check_test_names(tree):
    """test-name: a test's name is a claim in snake_case, such as get_never_returns_a_torn_value"""
    test = re.compile(r"\b(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\s*\(\s*\w+,\s*(\w+)\s*\)")
    for path in tree.paths("_test.cc"):
        code = tree.code(path)
        for match in test.finditer(code):
            name = match.group(1)
            if not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", name):
                yield Violation(path, line_of(code, match.start()), "test-name",
                                f"'{name}' is no claim: say what holds")


def check_codes(tree):
    """code-without-test: each code of base/codes.def is expected by some test"""
    table = "refract/base/codes.def"
    if table not in tree.files:
        return
    tests = "\n".join(tree.files[path] for path in tree.paths(".cc", ".h") if is_test(path))
    mentioned = set(re.findall(r"\bk[A-Z]\w*", tests))
    for match in re.finditer(r"(?m)^REFRACT_CODE\((k\w+)", tree.files[table]):
        if match.group(1) not in mentioned:
            yield Violation(table, line_of(tree.files[table], match.start()), "code-without-test",
                            f"no test expects Code::{match.group(1)}: test it, or make it a message")


CLAIM = re.compile(r"\b(?:EXPECT|ASSERT)_|\b(?:ADD_FAILURE|FAIL|REFRACT_CHECK)\b|\bexpect\w*\(")
TEST_BODY = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\s*\(\s*\w+,\s*(\w+)\)\s*\{", re.MULTILINE)
FUNCTION = re.compile(r"^(?:  )?[\w\[][^\n;{}(]*?\b([a-z]\w*)\([^;{}]*\{", re.MULTILINE)


def check_expectations(tree):
    """expectation: a test expects something, by itself or by a function, of its file or named expect..."""
    for path in tree.cpp():
        code = tree.code(path)
        silent = [match for match in TEST_BODY.finditer(code) if not CLAIM.search(body_of(code, match))]
        claiming = claiming_functions(code) if silent else ()
        for match in silent:
            if not any(calls(body_of(code, match), name) for name in claiming):
                yield Violation(path, line_of(code, match.start()), "expectation",
                                f"{match.group(1)} cannot fail: it expects nothing")


def body_of(code, match):
    return code[match.end():closing_brace(code, match.end() - 1)]


def calls(body, name):
    return re.search(rf"\b{name}\s*(?:<[^<>;]*>)?\(", body)


def claiming_functions(code):
    """Those of a file that expect something, or call one that does."""
    bodies = [(match.group(1), body_of(code, match)) for match in FUNCTION.finditer(code)]
    found = {name for name, body in bodies if CLAIM.search(body)}
    while True:
        open_ones = [(name, body) for name, body in bodies if name not in found]
        more = {name for name, body in open_ones if any(calls(body, each) for each in found)}
        if not more:
            return found
        found |= more
