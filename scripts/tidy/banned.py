# SPDX-License-Identifier: Apache-2.0
"""What no code of ours says."""

import re

from tidy.tree import Violation, is_test, line_of, may_use_threads, provider_of, scrub

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
    """using-namespace: no header opens a namespace for the files that include it"""
    for path in tree.paths(".h"):
        code = tree.code(path)
        for match in re.finditer(r"\busing\s+namespace\b", code):
            yield Violation(path, line_of(code, match.start()), "using-namespace", "name what is used")


# In a literal: `{{"name`, or `"name": ` before a place that format() fills or before a bracket.
JSON_FORMAT = re.compile(r'\{\{\\"|\\"[\w{}]+\\": ?(?:\{|\[|\\"\{)|R"\w*\([^\n]*"\w+": ?\{\}')


def check_json_format(tree):
    """json-format: no JSON by format strings; documents::Value knows what a text may hold"""
    for path in tree.cpp():
        if is_test(path) or not path.startswith(("refract/", "apps/", "bench/")):
            continue
        for match in JSON_FORMAT.finditer(tree.files[path]):
            yield Violation(path, line_of(tree.files[path], match.start()), "json-format",
                            "build a documents::Value, and print it by refract/documents/json.h")


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
