#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md does what it says: each command is run as it is printed, in order, and what it prints has the
shape that is printed below it. Numbers, sizes and times may differ; lines and labels may not.

Usage: readme_test.py REFRACTD REFRACT PROJECT COMPILER PYTHON PACKAGE [unittest arguments]

The commands name /run/refract, /srv/refract and port 7400, and kill processes by name. So they run in
namespaces of their own, for mounts, processes and the network, in which all of this is a scratch folder's.
Where the kernel does not grant that, the test counts as skipped and says why. A key may share bucket and
fingerprint with another, by chance, and `refract trace` then shows a step more: so what differs is run again,
with another store. A lie differs again.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from namespaces import SKIPPED, enter_namespaces  # noqa: E402

PATIENCE_S = 60
DPKG_STATUS = "/var/lib/dpkg/status"
# Of an entry as `cpp` fragments use it.
CPP_FRAME = """#include <span>
#include <string>
#include <vector>

#include "refract/client/client.h"
#include "refract/client/objects.h"

void render(std::span<std::byte> bytes);
void look_at(std::span<const std::byte> bytes);
void look_up(refract::Client* client, const std::vector<std::string>& keys, std::span<std::byte> buffer) {{
{0}
}}
void build(refract::Client* client) {{
{1}
}}
void share(refract::Client* client) {{
{2}
}}
"""


class Block:
    """Commands with what is printed below each."""

    def __init__(self, heading, line, steps):
        self.heading = heading
        self.line = line
        self.steps = steps


def fences_of(text):
    """(heading, line number, language, lines) of each fenced block."""
    heading, language, start, lines = "", None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if language is None and line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, start, lines = line[3:].strip(), number, []
        else:
            yield heading, start, language, lines
            language, lines = None, []


def blocks_of(text):
    for heading, start, language, lines in fences_of(text):
        if language or not lines or not lines[0].startswith("$ "):
            continue
        steps = []
        for line in lines:
            if line.startswith("$ "):
                steps.append((line[2:], []))
            else:
                steps[-1][1].append(line)
        yield Block(heading, start, steps)


def shape_of(line):
    """What may differ from machine to machine, and from run to run, as one letter."""
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "T", line)
    line = re.sub(r"\[[-#.]{20,}\]", "[#]", line)
    line = re.sub(r"\b0x[0-9a-f]+|\b[0-9a-f]{16,}\b", "H", line)
    line = re.sub(r"\.\.\.[0-9a-f]{4}\b", "H", line)
    line = re.sub(r"\+?\b\d[\d,]*(\.\d+)?( ?(ns|us|ms|s|min|h|d|B|KiB|MiB|GiB)\b)?", "N", line)
    line = re.sub(r"( [0-9a-f]{2}){8,}.*", " BYTES", line)
    line = re.sub(r"\b(entr|chang|operation|region|shard|record|sync)(y|ies|es?|s)?\b", r"\1", line)
    return re.sub(r" +", " ", line).strip()


def difference(wanted, printed, may_have_more):
    """Nothing, or the first line that is not as README has it."""
    rest = list(printed)
    for line in wanted:
        while may_have_more and rest and shape_of(rest[0]) != shape_of(line):
            rest.pop(0)
        if not rest or shape_of(rest[0]) != shape_of(line):
            return f"README has\n  {line}\nand printed was\n  " + "\n  ".join(rest[:3] or ["nothing more"])
        rest.pop(0)
    if rest and not may_have_more:
        return f"README lacks the line\n  {rest[0]}"
    return ""


class Person:
    """Types the commands: one terminal for nodes, which is given Ctrl-C before another one starts."""

    def __init__(self, folder):
        self.folder = folder
        self.node = None
        self.others = []
        self.said = os.path.join(folder, "node.said")
        self.exported = {}

    def environment(self):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("REFRACT_", "XDG_"))}
        # `python3` is the one that the package was built for.
        path = os.path.dirname(PYTHON) + os.pathsep + kept["PATH"]
        return {**kept, "PATH": path, "HOME": self.folder, "LC_ALL": "C.UTF-8", **self.exported}

    def type(self, command):
        """A person takes a moment between two commands, in which an `everysec` log comes to the disk."""
        command = command.replace("HOST", "localhost")
        if exported := re.fullmatch(r"export (\w+)=(\S+)", command):
            self.exported[exported[1]] = exported[2]
            return []
        if "^data" in command:
            time.sleep(1.5)
        if command.endswith(" &"):
            return self.start_beside(command[:-2])
        if re.search(r"\brefractd\b(?![^;|&]*(--help|--version|--print))", command.split(";")[-1]) and \
                "pkill" not in command.split(";")[-1]:
            return self.start(command)
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment(),
                              timeout=PATIENCE_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        return done.stdout.decode().splitlines()

    def start_beside(self, command):
        """A further node, in the background; the one in the terminal was stopped before."""
        self.stop()
        said = os.path.join(self.folder, f"beside{len(self.others)}.said")
        with open(said, "wb") as file:
            self.others.append(subprocess.Popen(["bash", "-c", "exec " + command], cwd=self.folder,
                                                env=self.environment(), stdout=file,
                                                stderr=subprocess.STDOUT))
        end = time.monotonic() + PATIENCE_S
        while self.others[-1].poll() is None and time.monotonic() < end:
            with open(said, encoding="utf-8") as file:
                text = file.read()
            if "\n  $ " in text:
                return []
            time.sleep(0.01)
        with open(said, encoding="utf-8") as file:
            return ["the node did not start: " + file.read()]

    def start(self, command):
        """Everything before the node's own command is done first, since it may be about the last one."""
        *before, last = command.split("; ")
        for each in before:
            self.type(each)
        self.stop()
        self.stop_others()
        with open(self.said, "wb") as said:
            self.node = subprocess.Popen(["bash", "-c", "exec " + last], cwd=self.folder,
                                         env=self.environment(), stdout=said, stderr=subprocess.STDOUT)
        end = time.monotonic() + PATIENCE_S
        while "\n  $ " not in self.printed() and self.node.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        return self.printed().splitlines()

    def printed(self):
        with open(self.said, encoding="utf-8") as said:
            return said.read()

    def stop_others(self):
        for other in self.others:
            if other.poll() is None:
                other.send_signal(signal.SIGINT)
            other.wait(PATIENCE_S)
        self.others = []

    def stop(self):
        if self.node is None:
            return
        if self.node.poll() is None:
            self.node.send_signal(signal.SIGINT)
        self.node.wait(PATIENCE_S)
        self.node = None


def flip_a_byte_of_the_log(person):
    """What the chapter on damage begins with."""
    person.type("build/bin/refract load " + DPKG_STATUS)
    person.stop()
    log = sorted(pathlib.Path("/srv/refract").glob("log-*"))[0]
    with open(log, "r+b") as file:
        file.seek(8536 + 200)
        byte = file.read(1)
        file.seek(8536 + 200)
        file.write(bytes([byte[0] ^ 1]))


class Readme(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.text = (PROJECT / "README.md").read_text(encoding="utf-8")

    def run_all(self):
        """Each difference there is; a store of its own."""
        with tempfile.TemporaryDirectory(prefix="refract-readme-") as folder:
            os.makedirs(os.path.join(folder, "build/bin"))
            for program in (REFRACTD, REFRACT):
                os.symlink(program, os.path.join(folder, "build/bin", os.path.basename(program)))
            os.symlink(PACKAGE, os.path.join(folder, "build/python"))
            for place in ("/run", "/srv"):
                mine = os.path.join(folder, place[1:])
                os.mkdir(mine)
                subprocess.run(["mount", "--bind", mine, place], check=True)
            person = Person(folder)
            try:
                return self.differences(person)
            finally:
                person.stop()
                person.stop_others()
                for place in ("/run", "/srv"):
                    subprocess.run(["umount", "--lazy", place], check=True)

    def differences(self, person):
        found = []
        banner = [lines for _, _, language, lines in fences_of(self.text)
                  if not language and lines[0] == "Refract is ready."]
        self.assertEqual(len(banner), 1)
        said = person.start("build/bin/refractd")
        if what := difference(banner[0], said, may_have_more=False):
            found.append(f"the node of 'make run': {what}")
        last_heading = ""
        for block in blocks_of(self.text):
            if block.heading == "After damage" != last_heading:
                flip_a_byte_of_the_log(person)
            last_heading = block.heading
            for command, wanted in block.steps:
                if command.startswith("python3 ") and not IS_PACKAGE_HERE:
                    continue
                printed = person.type(command)
                is_node = "refractd" in command and "pkill" not in command.split(";")[-1] and \
                    not command.endswith(" &")
                what = difference(wanted, printed, may_have_more=is_node)
                if is_node and (person.node is None or person.node.poll() is not None):
                    what = "the node did not start: " + "\n  ".join(printed)
                if what:
                    found.append(f"README.md:{block.line}: $ {command}\n{what}")
        return found

    def test_each_command_prints_what_stands_below_it(self):
        commands = sum(len(block.steps) for block in blocks_of(self.text))
        self.assertGreater(commands, 25, "the commands were not found")
        found = self.run_all()
        if found:
            found = self.run_all()
        self.assertEqual(found, [], "\n\n".join(found))

    def test_the_program_is_the_example_that_is_built_and_run(self):
        programs = ["\n".join(lines) for _, _, language, lines in fences_of(self.text) if language == "cpp"]
        example = (PROJECT / "examples/hello.cc").read_text(encoding="utf-8")
        self.assertIn(programs[0].strip(), example)
        bank = (PROJECT / "examples/bank.cc").read_text(encoding="utf-8")
        self.assertIn(textwrap.indent(programs[1].strip(), "  "), bank)
        cmake = [lines for _, _, language, lines in fences_of(self.text) if language == "cmake"]
        of_example = (PROJECT / "examples/CMakeLists.txt").read_text(encoding="utf-8")
        for line in cmake[0]:
            self.assertIn(line.strip(), of_example)

    def test_fragments_of_programs_compile(self):
        programs = ["\n".join(lines) for _, _, language, lines in fences_of(self.text) if language == "cpp"]
        fragments = programs[2:]
        self.assertEqual(len(fragments), 3)
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "fragments.cc")
            with open(source, "w", encoding="utf-8") as file:
                file.write(CPP_FRAME.format(*fragments))
            command = [COMPILER, "-std=c++23", "-fsyntax-only", "-Wall", "-I", str(PROJECT), source]
            done = subprocess.run(command, capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_a_line_that_lies_is_found(self):
        lies = [(["a 1"], ["b 1"], False), (["a"], [], False), ([], ["a"], False),
                (["a", "b"], ["b", "a"], True), (["x 3 of them"], ["x 3 of it"], False)]
        for wanted, printed, more in lies:
            self.assertNotEqual(difference(wanted, printed, more), "", (wanted, printed))
        truths = [(["up 1.2 s, 3 entries"], ["up 900 ms, 1 entry"], False), (["b 2"], ["a", "b 7"], True),
                  (["at 0x1f"], ["at 0x2"], False)]
        for wanted, printed, more in truths:
            self.assertEqual(difference(wanted, printed, more), "", (wanted, printed))


if __name__ == "__main__":
    enter_namespaces()
    if not os.path.exists(DPKG_STATUS):
        print(f"skipped: README's commands load {DPKG_STATUS}, which is not here")
        sys.exit(SKIPPED)
    REFRACTD, REFRACT, SOURCE, COMPILER, PYTHON, PACKAGE = (os.path.abspath(path) for path in sys.argv[1:7])
    PROJECT = pathlib.Path(SOURCE)
    # A sanitized one needs more than a person types.
    IS_PACKAGE_HERE = any(pathlib.Path(PACKAGE).glob("refract/_refract.*.so"))
    if not IS_PACKAGE_HERE:
        print("the Python package is not there, and README's commands that use it are left out")
    unittest.main(argv=[sys.argv[0], *sys.argv[7:]])
