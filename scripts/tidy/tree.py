# SPDX-License-Identifier: Apache-2.0
"""The files of the repository, and what several checks ask about them."""

import dataclasses
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


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
