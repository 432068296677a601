# SPDX-License-Identifier: Apache-2.0
"""The words of code and documents, and where they lead."""

import os
import re

from tidy.tree import Violation, line_of


def check_words(tree):
    """todo, machine-path, banner: no reminders without a number, no traces of one machine, no ornaments"""
    machine = re.compile(r"(?<![\w.$}~])/(?:work|root)/\w|/tmp/build\-|\.librar[y]\b|\b[Ii]ssue #?\d")
    for path in sorted(tree.files):
        is_code = path.endswith((".h", ".cc", ".def", ".py", ".cmake", "CMakeLists.txt", "Makefile"))
        for number, line in enumerate(tree.lines(path), 1):
            reminder = is_code and re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line)
            if reminder and path != "scripts/tidy/words.py":
                yield Violation(path, number, "todo", "do it, or name what tracks it: TODO(#12)")
            if match := machine.search(line):
                yield Violation(path, number, "machine-path",
                                f"'{match.group(0)}' means nothing to other people")
            if path.endswith((".h", ".cc")) and re.match(r"\s*(//|/\*)\s*[-=*#/~]{4,}", line):
                yield Violation(path, number, "banner", "a comment is a sentence, not a line of ornaments")


# One word for one thing: docs/ARCHITECTURE.md has the glossary.
GLOSSARY = [
    (r"\b(memory_?region|MemoryRegion)\b", "region"),
    (r"\b(work_?request|WorkRequest)\b", "request"),
    (r"\b([Ss]upervisor|[Ww]atchdog)\b", "keeper"),
    (r"\b(rKey|r_key|remote_?access_?key)\b", "rkey"),
    (r"\b([Mm]emory_?[Pp]ool)\b", "slab"),
]


def check_glossary(tree):
    """glossary: one word for one thing"""
    for path in tree.paths(".h", ".cc", ".md"):
        for pattern, word in GLOSSARY:
            for match in re.finditer(pattern, tree.files[path]):
                yield Violation(path, line_of(tree.files[path], match.start()), "glossary",
                                f"'{match.group(0)}': our word is '{word}'")


# Words that hide what acts, and what to say instead. STYLE.md has the rule.
PLAIN = [
    (r"whoever|whom|nobody|somebody", "name what acts: the caller, reader, owner, client, holder"),
    (r"anew|once\s+more", "say 'again'"),
    (r"nor", "say 'not ... and not', 'or', 'no ... and no'"),
    (r"in\s+vain|to\s+be\s+had|borne\s+with", "say what happens: without success, available, accepted"),
    (r"goes\s+on", "say 'continues'"),
]
PLAIN_WORDS = re.compile(r"\b(?:" + "|".join(f"({words})" for words, _ in PLAIN) + r")\b", re.IGNORECASE)
NOT_OURS = ("LICENSE", "scripts/tidy/words.py")


def check_plain(tree):
    """plain: subject first, and a noun for what acts; no word that hides it"""
    for path in sorted(tree.files):
        if path in NOT_OURS:
            continue
        # Words that stand at the end of one comment line and at the beginning of the next are together.
        text = re.sub(r"(?<=\n)[ \t]*(?://|#)", lambda mark: " " * len(mark.group(0)), tree.files[path])
        for match in PLAIN_WORDS.finditer(text):
            word = re.sub(r"\s+", " ", match.group(0))
            yield Violation(path, line_of(text, match.start()), "plain",
                            f"'{word}': {PLAIN[match.lastindex - 1][1]}")


MENTION = re.compile(r"(?<![\w./<-])((?:docs|scripts|refract|apps|bench|tests|cmake|examples)/[\w./-]+"
                     r"\.(?:md|h|cc|def|py|toml|cmake))\b")


def slug(heading):
    """The anchor that a forge makes of a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).strip().lower()).replace(" ", "-")


def check_links(tree):
    """link: what a document links to, and each page that a comment names, exists"""
    for path in tree.paths(".md"):
        text = re.sub(r"(?s)```.*?```", lambda fence: re.sub(r"[^\n]", " ", fence.group(0)), tree.files[path])
        for match in re.finditer(r"\[[^\]\n]*\]\(([^)\s]+)\)", text):
            fault = link_fault(tree, path, match.group(1))
            if fault:
                yield Violation(path, line_of(text, match.start()), "link", fault)
        for match in MENTION.finditer(text):
            if match.group(1) not in tree.files and "NNN" not in match.group(1):
                yield Violation(path, line_of(text, match.start()), "link", f"there is no {match.group(1)}")
    for path in tree.paths(".h", ".cc", ".def", ".cmake", "CMakeLists.txt"):
        text = tree.files[path]
        for match in re.finditer(r"\bdocs/[\w./-]*\w", text):
            target = match.group(0)  # A page, a folder, or a page by its number: docs/design/003.
            numbered = any(name.startswith(target + "-") for name in tree.files)
            if target not in tree.files and not tree.has_folder(target) and not numbered:
                yield Violation(path, line_of(text, match.start()), "link", f"there is no {target}")


def link_fault(tree, path, link):
    if re.match(r"[a-z]+:", link):
        return None
    target, _, anchor = link.partition("#")
    full = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
    if full not in tree.files and not tree.has_folder(full):
        return f"the link leads nowhere: {link}"
    if anchor and full.endswith(".md"):
        headings = re.findall(r"(?m)^#+\s+(.*)$", tree.files[full])
        if anchor not in {slug(heading) for heading in headings}:
            return f"{full} has no heading #{anchor}"
    return None
