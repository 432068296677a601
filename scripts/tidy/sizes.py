# SPDX-License-Identifier: Apache-2.0
"""How long lines, files and functions may be."""

import re

from tidy.rules import FUNCTION_LIMIT, HEADER_LIMIT, LINE_LIMIT, SOURCE_AIM, SOURCE_LIMIT
from tidy.tree import Violation, closing_brace, line_of


def check_line_length(tree):
    """line-length: no line is longer than 110 characters"""
    for path in tree.paths(".h", ".cc", ".def", ".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile"):
        for number, line in enumerate(tree.lines(path), 1):
            if len(line) > LINE_LIMIT and "http" not in line:
                yield Violation(path, number, "line-length", f"{len(line)} characters, not {LINE_LIMIT}")


def check_file_length(tree):
    """file-length: a header has at most 250 lines, a source at most 800"""
    for path in tree.cpp():
        count = len(tree.lines(path))
        limit = HEADER_LIMIT if path.endswith(".h") else SOURCE_LIMIT
        if count > limit:
            yield Violation(path, limit + 1, "file-length",
                            f"{count} lines, {limit} are allowed: split it by purpose")


def notes(tree):
    for path in tree.paths(".cc"):
        count = len(tree.lines(path))
        if SOURCE_AIM < count <= SOURCE_LIMIT:
            yield f"{path}: {count} lines; sources aim at {SOURCE_AIM}"


def functions(code):
    """Yields (offset of the opening brace, offset of the closing one) of each outermost function body."""
    scope_word = re.compile(r"\b(namespace|class|struct|union|enum|extern|concept)\b")
    header_start, parens, position = 0, 0, 0
    token = re.compile(r"[(){};]")
    while match := token.search(code, position):
        position = match.end()
        if match.group(0) in "()":
            parens += 1 if match.group(0) == "(" else -1
        elif match.group(0) in ";}":
            if parens <= 0:
                header_start, parens = position, 0
        else:
            close = closing_brace(code, match.start())
            header = code[header_start:match.start()]
            following = code[close + 1:close + 200].lstrip()[:1]
            lambda_value = re.search(r"=\s*\[[^\]]*\]\s*(\([^;{}]*\))?[^;{}=]*$", header)
            is_value = re.search(r"(?<![=!<>])=(?!=)", re.sub(r"\([^()]*\)|operator\s*=+", "", header))
            if parens > 0 or (following and following in "{," and "(" in header):
                position = close + 1  # The initialiser of an argument or a member.
            elif "(" in header and not scope_head(scope_word, header) and (lambda_value or not is_value):
                yield match.start(), close
                position = header_start = close + 1
            elif scope_word.search(header) and not is_value:
                header_start = position  # Look inside.
            else:
                position = close + 1


def scope_head(scope_word, header):
    """Whether the header opens a namespace or a type, rather than a function that mentions one."""
    head = re.sub(r"^\s*(template\s*<[^;{}]*>\s*)?(requires\b[^;{}]*\)\s*)?", "", header)
    match = scope_word.search(head)
    if match is None or match.group(1) == "concept":
        return False
    decoration = r"alignas\s*\([^)]*\)|\[\[[^\]]*\]\]|__attribute__\s*\(\(.*?\)\)|final"
    rest = re.sub(decoration, "", head[match.end():])
    base_clause = re.split(r"(?<!:):(?!:)", rest)[0]
    return match.start() < 40 and "(" not in base_clause


def check_function_length(tree):
    """function-length: a function has at most 70 lines"""
    for path in tree.cpp():
        code = tree.code(path)
        for start, end in functions(code):
            first, last = line_of(code, start), line_of(code, end)
            if last - first + 1 > FUNCTION_LIMIT:
                yield Violation(path, first, "function-length",
                                f"{last - first + 1} lines, {FUNCTION_LIMIT} are allowed: name a part of it")
