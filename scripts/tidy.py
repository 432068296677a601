#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuses what docs/STYLE.md forbids and no compiler sees.

    scripts/tidy.py              all files of the repository; exit code 1 when something is wrong
    scripts/tidy.py PATH ...     reports only what is found in these files or folders
    scripts/tidy.py --list       the checks, one line each

A check is a generator that takes a Tree and yields Violations. What is allowed in spite of a check stands in
EXCEPTIONS, with its reason; a line of code may also carry `// tidy: allow(CHECK) reason`, on it or above it.
"""

import dataclasses
import fnmatch
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

LINE_LIMIT = 110
FUNCTION_LIMIT = 70
HEADER_LIMIT = 250
SOURCE_AIM = 500
SOURCE_LIMIT = 800

# A layer may include itself and what has a smaller number; equal numbers are sisters, and strangers.
LAYER_RANK = {
    "base": 0, "runtime": 1, "memory": 2, "fabric": 3, "rpc": 4, "prism": 5, "cluster": 6,
    "kv": 7, "block": 7, "txn": 8, "object": 8, "graph": 8, "client": 9, "node": 10, "doors": 11,
}
# The layers that may name a provider; all others know the contract alone.
PROVIDER_USERS = {"client", "node", "doors"}

# (check, path or folder/, the reason). Each must excuse something, or tidy asks for its removal.
EXCEPTIONS = [
    ("line-length", "refract/base/codes.def", "a row is one line, so that it can be searched for"),
    ("dead-file", ".ci/canary_fuzz.cc", "scripts/fuzz builds it, outside of CMake"),
    ("feature-ifdef", "refract/memory/remote_visible.h", "racing copies need another form under TSan"),
    ("feature-ifdef", "refract/kv/mapped_memory.h", "racing reads need another form under TSan"),
    ("feature-ifdef", "refract/kv/slot_match.h", "a vector load is a race to TSan, and needs SSE2"),
]


@dataclasses.dataclass(frozen=True)
class Violation:
    path: str
    line: int
    check: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message} [{self.check}]"


class Tree:
    """The files of the repository as {path: text}, and what several checks ask about them."""

    def __init__(self, files):
        self.files = files
        self._code = {}

    def paths(self, *suffixes):
        return sorted(path for path in self.files if path.endswith(suffixes))

    def cpp(self):
        return self.paths(".h", ".cc")

    def lines(self, path):
        return self.files[path].splitlines()

    def code(self, path):
        """The text with comments, literals and preprocessor lines blanked; all else stays in place."""
        if path not in self._code:
            self._code[path] = blank_preprocessor(scrub(self.files[path]))
        return self._code[path]

    def has_folder(self, folder):
        return any(path.startswith(folder + "/") for path in self.files)


LITERAL_OR_COMMENT = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?\*/'
    r'|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-FxX])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def scrub(text):
    """Blanks comments, and what is between the quotes of literals."""
    def blank(match):
        piece = match.group(0)
        if piece[0] in "\"'R":
            return piece[0] + re.sub(r"[^\n]", " ", piece[1:-1]) + piece[-1]
        return re.sub(r"[^\n]", " ", piece)
    return LITERAL_OR_COMMENT.sub(blank, text)


def blank_preprocessor(code):
    line = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
    return line.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), code)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def is_test(path):
    """Tests, and what only tests include: a conformance suite, a header named test_*.h."""
    return (path.startswith("tests/") or path.endswith(("_test.cc", "_fuzz.cc")) or "/conformance/" in path
            or os.path.basename(path).startswith("test_"))


def may_use_threads(path):
    """Where the operating system's clock, threads and chance are at home."""
    homes = ("bench/", "refract/base/", "refract/runtime/")
    return is_test(path) or path.endswith("_bench.cc") or path.startswith(homes) or bool(provider_of(path))


def layer_of(path):
    match = re.match(r"refract/(\w+)/", path)
    return match.group(1) if match else None


def provider_of(path):
    match = re.match(r"refract/fabric/(\w+)/", path)
    return match.group(1) if match else None


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


def includes(tree, path):
    for match in INCLUDE.finditer(tree.files[path]):
        yield line_of(tree.files[path], match.start()), match.group(1)


def closing_brace(code, start):
    """The offset of the brace that closes the one at `start`, or the end of the text."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return match.start()
    return len(code)


# ---- layers ----


def check_layers(tree):
    """layer: an include goes to a lower layer, and a provider knows no other provider"""
    for path in tree.cpp():
        layer = layer_of(path)
        if layer is None:
            continue
        if layer not in LAYER_RANK:
            yield Violation(path, 1, "layer", f"'{layer}' is no layer: see LAYER_RANK in scripts/tidy.py")
            continue
        for line, included in includes(tree, path):
            message = layer_fault(path, layer, included)
            if message:
                yield Violation(path, line, "layer", message)


def layer_fault(path, layer, included):
    if not included.startswith("refract/"):
        allowed = is_test(path) and included.startswith("tests/")
        return None if allowed else f'write includes of ours from the root: "refract/...", not "{included}"'
    target = layer_of(included)
    if target is None:
        return None
    if target not in LAYER_RANK:
        return f"'{target}' is no layer: see LAYER_RANK in scripts/tidy.py"
    if target != layer and LAYER_RANK[target] >= LAYER_RANK[layer]:
        return f"{layer} must not know {target}, which does not stand below it"
    provider = provider_of(included)
    if provider is None or is_test(path) or provider_of(path) == provider:
        return None
    if provider_of(path) is not None:
        return f"a provider must not know another: {provider_of(path)} includes {provider}"
    if layer == "fabric" and not path.startswith("refract/fabric/registry."):
        return f"of fabric, only the registry may name a provider ({provider})"
    if layer != "fabric" and layer not in PROVIDER_USERS:
        return f"{layer} must use the contract of fabric, not the provider {provider}"
    return None


# ---- sizes ----


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


# ---- banned words ----

# (check, pattern, what to use, whether it is allowed where threads are at home)
BANNED = [
    ("os-clock", r"\b(clock_gettime|gettimeofday|timespec_get|__rdtsc|_rdtsc|ftime)\b|\bstd::time\s*\("
     r"|\bchrono::(system|steady|high_resolution|utc)_clock\b", "take a refract::Clock&", True),
    ("sleep", r"\b(sleep|usleep|nanosleep|clock_nanosleep)\s*\(|\bthis_thread::sleep_\w+",
     "let the Shard wait: a timer or an event", True),
    ("rand", r"\b(rand|srand|random|drand48)\s*\(|\b(random_device|mt19937(_64)?|default_random_engine)\b",
     "take a refract::Prng&, or secure_random for what must not be guessed", True),
    ("thread", r"\bstd::(thread|jthread|async)\b(?!::id)|\bpthread_create\b", "use a Shard", True),
    ("shared-ptr", r"\b(shared_ptr|make_shared|enable_shared_from_this)\b",
     "give it one owner: unique_ptr or a member", True),
    ("recursive-mutex", r"\brecursive_(timed_)?mutex\b", "lock once, in the public function", False),
    ("volatile", r"(?<!asm )(?<!__asm__ )\bvolatile\b",
     "use std::atomic, or refract/memory/remote_visible.h", True),
    ("assert", r"\b(assert|abort)\s*\(", "REFRACT_CHECK, or a Result where the world may be at fault", True),
    ("throw", r"\b(throw|try|catch)\b(?!_)", "return a Result or a Reported", False),
]


def check_banned(tree):
    """os-clock, sleep, rand, thread, shared-ptr, recursive-mutex, volatile, assert, throw: banned words"""
    for path in tree.cpp():
        code = tree.code(path)
        for check, pattern, instead, threads_may in BANNED:
            if (threads_may and may_use_threads(path)) or (check == "throw" and is_test(path)):
                continue
            for match in re.finditer(pattern, code):
                yield Violation(path, line_of(code, match.start()), check,
                                f"'{match.group(0).strip()}' is banned here: {instead}")


def check_using_namespace(tree):
    """using-namespace: no header opens a namespace for whoever includes it"""
    for path in tree.paths(".h"):
        code = tree.code(path)
        for match in re.finditer(r"\busing\s+namespace\b", code):
            yield Violation(path, line_of(code, match.start()), "using-namespace", "name what is used")


SANITIZER_WORD = re.compile(r"__SANITIZE_\w+__|__has_feature|NDEBUG|REFRACT_DCHECK_ON")


def check_feature_ifdef(tree):
    """feature-ifdef: what is built in is decided by the registry and by the providers, not by #ifdef"""
    for path in tree.cpp():
        if path.startswith(("refract/base/", "refract/fabric/registry.")) or provider_of(path):
            continue
        for number, line in enumerate(scrub(tree.files[path]).splitlines(), 1):
            if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line):
                if is_test(path) and SANITIZER_WORD.search(line):
                    continue  # A sanitized test may take fewer turns.
                yield Violation(path, number, "feature-ifdef",
                                "choose at run time, or by a provider's row in the registry")


def check_native_code(tree):
    """native-code: no build for this machine's processor alone"""
    for path in tree.paths(".cmake", "CMakeLists.txt", "CMakePresets.json", "Makefile"):
        for number, line in enumerate(tree.lines(path), 1):
            if re.search(r"-m(arch|tune|cpu)=native", line):
                yield Violation(path, number, "native-code",
                                "programs are portable: choose newer instructions at run time")


# ---- coroutines ----


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


# ---- files ----


def check_dead_files(tree):
    """dead-file: each header is included by somebody, each source is built by a CMakeLists.txt"""
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
    if re.search(r"^\s*refract_layer\(", text, re.MULTILINE):
        return True
    globs = re.findall(r"[\w./${}*-]*\*[\w.*-]*\.cc\b", text)
    if name in text or any(fnmatch.fnmatch(name, os.path.basename(glob)) for glob in globs):
        return True
    parent = folder
    while parent:
        parent = os.path.dirname(parent)
        below = path[len(parent) + 1:] if parent else path
        if below in tree.files.get(f"{parent}/CMakeLists.txt" if parent else "CMakeLists.txt", ""):
            return True
    return False


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


def check_public_headers(tree):
    """public-header: what client.h brings along is of base and client, and needs no other library"""
    start = "refract/client/client.h"
    if start not in tree.files:
        return
    todo, seen = [start], set()
    while todo:
        path = todo.pop()
        if path in seen or path not in tree.files:
            continue
        seen.add(path)
        if layer_of(path) not in ("base", "client"):
            yield Violation(path, 1, "public-header", f"{start} reaches this: hide it behind a pointer")
        for match in re.finditer(r"(?m)^#include <([^>]*/[^>]*)>", tree.files[path]):
            if not match.group(1).startswith("sys/"):
                yield Violation(path, line_of(tree.files[path], match.start()), "public-header",
                                f"users would need <{match.group(1)}>")
        todo += [name for _, name in includes(tree, path)]


# ---- words ----


def check_words(tree):
    """todo, machine-path, banner: no reminders without a number, no traces of one machine, no ornaments"""
    machine = re.compile(r"(?<![\w.$}~])/(?:work|root)/\w|/tmp/build\-|\.librar[y]\b|\b[Ii]ssue #?\d")
    for path in sorted(tree.files):
        is_code = path.endswith((".h", ".cc", ".def", ".py", ".cmake", "CMakeLists.txt", "Makefile"))
        for number, line in enumerate(tree.lines(path), 1):
            if is_code and re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line) and path != "scripts/tidy.py":
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


CHECKS = [
    check_layers, check_line_length, check_file_length, check_function_length, check_banned,
    check_using_namespace, check_feature_ifdef, check_native_code, check_co_await, check_lambda_coroutine,
    check_dead_files, check_licence_line, check_pragma_once, check_folder_names, check_test_names,
    check_codes, check_public_headers, check_words, check_glossary, check_links,
]


# ---- running ----


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
            found.append(Violation("scripts/tidy.py", 1, "exception", message))
    return sorted(set(found), key=lambda item: (item.path, item.line, item.check))


def notes(tree):
    for path in tree.paths(".cc"):
        count = len(tree.lines(path))
        if SOURCE_AIM < count <= SOURCE_LIMIT:
            yield f"{path}: {count} lines; sources aim at {SOURCE_AIM}"


def list_files():
    """The files that git knows or would add; without git, all but the build folders."""
    try:
        command = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
        return sorted({name for name in listed if name and os.path.isfile(os.path.join(ROOT, name))})
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, folders, names in os.walk(ROOT):
            skipped = (".git", "build", "__pycache__", ".cache")
            folders[:] = [name for name in folders if not name.startswith(skipped)]
            found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
        return sorted(found)


def load():
    files = {}
    for name in list_files():
        try:
            with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                files[name] = file.read()
        except UnicodeDecodeError:
            continue  # A corpus entry or an image: nothing here speaks about those.
    return Tree(files)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
