# SPDX-License-Identifier: Apache-2.0
"""Where compilers and lifetimes make a coroutine fragile."""

import re

from tidy.tree import Violation, closing_brace, line_of


def enclosing_parens(code, offset):
    """Walks back from `offset` to the start of its statement; yields (offset of '(' not yet closed)."""
    depth = 0
    for position in range(offset - 1, -1, -1):
        letter = code[position]
        if letter == ")":
            depth += 1
        elif letter == "(":
            if depth == 0:
                yield position
            else:
                depth -= 1
        elif letter in "{};" and depth == 0:
            return


def statement_around(code, offset):
    """The statement's text before and after `offset`, within its own braces."""
    before = re.search(r"[^{};]*$", code[:offset]).group(0)
    depth, position = 0, offset
    while position < len(code):
        if code[position] in "({":
            depth += 1
        elif code[position] in ")}":
            depth -= 1
        if depth < 0 or (depth == 0 and code[position] in ";"):
            break
        position += 1
    return before, code[offset:position]


def check_co_await(tree):
    """co-await: no co_await inside a conditional expression or an argument list (g++ 12 miscompiles some)"""
    harmless = re.compile(r"(\b(if|while|switch|for|co_return|return|co_await|constexpr)|[-=+!&|<>?:,(;{}]|^"
                          r"|static_cast<[^;]*>)\s*$")
    for path in tree.cpp():
        code = tree.code(path)
        for match in re.finditer(r"\bco_await\b", code):
            line = line_of(code, match.start())
            before, after = statement_around(code, match.start())
            in_call = [paren for paren in enclosing_parens(code, match.start())
                       if not harmless.search(code[max(0, paren - 120):paren])]
            if in_call:
                yield Violation(path, line, "co-await",
                                "co_await inside an argument list: give its value a name first")
            elif "?" in before or "?" in after:
                yield Violation(path, line, "co-await",
                                "co_await inside a conditional expression: use an if")


LAMBDA = re.compile(r"(?<![\w\])\[])\[(?!\[)([^\[\]]*)\]\s*(?:<[^<>{};]*>\s*)?"
                    r"(?:\((?:[^(){};]|\([^(){};]*\))*\)\s*)?"
                    r"(?:(?:mutable|noexcept|constexpr|static)\s*)*(?:->\s*[\w:<>,&*\s]+?)?\s*\{")


def lambdas(code):
    """Yields (offset, captures, body) of each lambda; a body has the bodies of lambdas inside it blanked."""
    found = [(match.start(), match.group(1).strip(), match.end(), closing_brace(code, match.end() - 1))
             for match in LAMBDA.finditer(code)]
    for offset, captures, start, end in found:
        body = code[start:end]
        for _, _, inner_start, inner_end in found:
            if start < inner_start and inner_end < end:
                inner = body[inner_start - start:inner_end - start]
                body = body[:inner_start - start] + re.sub(r"[^\n]", " ", inner) + body[inner_end - start:]
        yield offset, captures, body


def check_lambda_coroutine(tree):
    """lambda-coroutine: a lambda that captures is no coroutine; its captures die before it resumes"""
    for path in tree.cpp():
        code = tree.code(path)
        for offset, captures, body in lambdas(code):
            if captures and re.search(r"\bco_(await|return|yield)\b", body):
                yield Violation(path, line_of(code, offset), "lambda-coroutine",
                                "a capturing lambda must not be a coroutine: use parameters")
