# SPDX-License-Identifier: Apache-2.0
"""The checks of scripts/tidy.py, and the run through all of them.

A check is a generator that takes a Tree and yields Violations. What is allowed in spite of a check stands in
EXCEPTIONS (rules.py), with its reason; a line of code may also carry `// tidy: allow(CHECK) reason`, on it or
above it.
"""

import os
import re

from tidy.banned import (check_banned, check_feature_ifdef, check_json_format, check_native_code,
                         check_using_namespace)
from tidy.coroutines import check_co_await, check_lambda_coroutine
from tidy.files import (check_codes, check_dead_files, check_expectations, check_folder_names,
                        check_folder_size, check_licence_line, check_pragma_once, check_test_names)
from tidy.layers import check_heavy_headers, check_layers, check_public_headers, check_rooms
from tidy.rules import EXCEPTIONS
from tidy.sizes import check_file_length, check_function_length, check_line_length, notes
from tidy.tree import ROOT, Tree, Violation, load
from tidy.words import check_glossary, check_links, check_plain, check_words

__all__ = ["EXCEPTIONS", "Tree", "Violation", "main", "notes", "run"]

CHECKS = [
    check_layers, check_rooms, check_line_length, check_file_length, check_function_length, check_banned,
    check_using_namespace, check_json_format, check_feature_ifdef, check_native_code, check_co_await,
    check_lambda_coroutine, check_dead_files, check_licence_line, check_pragma_once, check_folder_names,
    check_folder_size, check_test_names, check_codes, check_public_headers, check_heavy_headers, check_words,
    check_glossary, check_plain, check_links, check_expectations,
]


def is_allowed_in_place(tree, violation):
    """Whether the line, or the one above it, carries `tidy: allow(CHECK) reason`."""
    if violation.path not in tree.files:
        return False
    lines = tree.lines(violation.path)
    near = lines[max(0, violation.line - 2):violation.line]
    return any(re.search(rf"tidy: allow\({re.escape(violation.check)}\) \S", line) for line in near)


def exception_for(violation, exceptions):
    for exception in exceptions:
        check, where, _ = exception
        in_folder = where.endswith("/") and violation.path.startswith(where)
        if check == violation.check and (violation.path == where or in_folder):
            return exception
    return None


def run(tree, exceptions=()):
    """All violations that nothing excuses, and those exceptions that excuse nothing."""
    used, found = set(), []
    for check in CHECKS:
        for violation in check(tree):
            exception = exception_for(violation, exceptions)
            if exception:
                used.add(exception)
            elif not is_allowed_in_place(tree, violation):
                found.append(violation)
    for exception in exceptions:
        if exception not in used and (exception[1] in tree.files or exception[1].endswith("/")):
            message = f"it excuses nothing, remove it: {exception}"
            found.append(Violation("scripts/tidy/rules.py", 1, "exception", message))
    return sorted(set(found), key=lambda item: (item.path, item.line, item.check))


def main(arguments):
    if arguments == ["--list"]:
        for check in CHECKS:
            print(check.__doc__)
        return 0
    tree = load()
    wanted = [os.path.relpath(os.path.abspath(argument), ROOT) for argument in arguments]
    found = [violation for violation in run(tree, EXCEPTIONS)
             if not wanted or any((violation.path + "/").startswith(path + "/") for path in wanted)]
    for violation in found:
        print(violation)
    if not wanted:
        for note in notes(tree):
            print("note:", note)
    print(f"tidy: {len(tree.files)} files, {len(CHECKS)} checks, {len(found)} violations")
    return 1 if found else 0
