# SPDX-License-Identifier: Apache-2.0
"""The headers that must be compiled alone, because the build does not show that they can be."""

import re

from tidy.tree import is_test

# Whatever could change the meaning of what follows ends the search: a macro, a condition, code.
BEFORE_FIRST_INCLUDE = re.compile(r'(?:\s+|//[^\n]*\n|#pragma once\n)*#include "([^"]+)"')
# scripts/lint compiles each of these alone, but for tests.
BUILT_AS_IT_STANDS = ("refract/", "apps/")


def first_include(tree, path):
    """The header of ours that stands before all else in a file, or None."""
    match = BEFORE_FIRST_INCLUDE.match(tree.files[path])
    return match.group(1) if match and match.group(1) in tree.files else None


def shown_by(tree, paths):
    """The headers with nothing before them when these files are compiled, without the files themselves."""
    shown = set()
    for path in paths:
        header = first_include(tree, path)
        while header and header not in shown:
            shown.add(header)
            header = first_include(tree, header)
    return shown


def to_compile(tree):
    """The fewest headers whose compilation, and that of the sources, shows all of them."""
    built = [path for path in tree.paths(".cc") if path.startswith(BUILT_AS_IT_STANDS)]
    shown = shown_by(tree, [path for path in built if not is_test(path)])
    chosen = [header for header in tree.paths(".h") if header not in shown]
    for header in list(chosen):
        # One at a time: of headers that include each other first, one must stay.
        others = [other for other in chosen if other != header]
        if header in shown_by(tree, others):
            chosen = others
    return chosen
