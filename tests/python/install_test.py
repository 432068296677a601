#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pip install .` into an empty environment without an index, a wheel and an sdist; and their use. Some 30 s.

Usage: install_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE FOLDER_OF_THE_PROJECT [unittest arguments]
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import Node, Package, begin, clean_environment, needs  # noqa: E402

PROJECT = os.path.abspath(sys.argv.pop(4))
begin()
needs("venv", "ensurepip", "pip", "build")
BUILD = os.path.dirname(Package.folder)
USE = """
import sys, refract
from refract import objects, plasma
client = refract.connect(sys.argv[1])
client.put("a", b"1")
print(client.get("a"), refract.__file__)
"""


def environment(**more):
    return {**clean_environment(), "REFRACT_BUILD": BUILD, "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", **more}


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment(), **options)
    if done.returncode != 0:
        raise AssertionError(f"{words}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        os.chmod(made.name, 0o755)
        self.folder = made.name

    def python_of(self, name):
        """An empty environment's."""
        run(sys.executable, "-m", "venv", os.path.join(self.folder, name))
        return os.path.join(self.folder, name, "bin", "python")

    def is_used_by(self, python):
        with Node("--memory-limit", "64MiB") as node:
            said = run(python, "-c", USE, node.socket, cwd=self.folder)
        self.assertIn("b'1' " + os.path.dirname(os.path.dirname(python)), said)

    def test_pip_installs_the_tree_without_an_index_and_takes_it_away_again(self):
        python = self.python_of("tree")
        run(python, "-m", "pip", "install", PROJECT)
        self.is_used_by(python)
        self.assertIn("refract", run(python, "-m", "pip", "list"))
        self.assertIn("No broken requirements", run(python, "-m", "pip", "check"))
        if os.geteuid() == 0:
            # Another user has it, too.
            said = run(python, "-c", "import refract; print(refract.Client.__name__)", user=65534,
                       group=65534, extra_groups=[], cwd="/")
            self.assertEqual(said, "Client\n")
        run(python, "-m", "pip", "uninstall", "--yes", "refract")
        self.assertEqual(subprocess.run([python, "-c", "import refract"], capture_output=True, check=False,
                                        cwd=self.folder).returncode, 1)

    def test_build_makes_a_wheel_with_all_of_the_package(self):
        run(sys.executable, "-m", "build", "--wheel", "--outdir", self.folder, PROJECT)
        [wheel] = [name for name in os.listdir(self.folder) if name.endswith(".whl")]
        self.assertRegex(wheel, r"^refract-[0-9.]+-cp311-cp311-linux_x86_64\.whl$")
        with zipfile.ZipFile(os.path.join(self.folder, wheel)) as archive:
            names = {name for name in archive.namelist() if name.startswith("refract/")}
            [points] = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
            self.assertEqual(archive.read(points).decode(),
                             "[fsspec.specs]\nrefract = refract.connectors.fsspec:RefractFileSystem\n")
        package = os.path.join(Package.folder, "refract")
        there = {os.path.join("refract", os.path.relpath(os.path.join(folder, name), package))
                 for folder, _, names_in in os.walk(package) if not folder.endswith("__pycache__")
                 for name in names_in}
        self.assertEqual(names, there)
        python = self.python_of("wheel")
        run(python, "-m", "pip", "install", os.path.join(self.folder, wheel))
        self.is_used_by(python)

    def test_an_sdist_has_all_that_the_build_reads(self):
        """To build it would take minutes: what ninja knows of the files that this build has read is looked
        at, and CMake takes the folder."""
        run(sys.executable, "-m", "build", "--sdist", "--outdir", self.folder, PROJECT)
        [sdist] = [name for name in os.listdir(self.folder) if name.endswith(".tar.gz")]
        with tarfile.open(os.path.join(self.folder, sdist)) as archive:
            archive.extractall(self.folder)
        alone = os.path.join(self.folder, sdist.removesuffix(".tar.gz"))
        inputs = run("ninja", "-C", BUILD, "-t", "inputs", "refract_python").split("\n")
        objects = [name for name in inputs if name.endswith(".o")]
        self.assertGreater(len(objects), 30)
        read = run("ninja", "-C", BUILD, "-t", "deps", *objects)
        # A compiler cache may have made them relative to the build folder.
        paths = [os.path.normpath(os.path.join(BUILD, path))
                 for path in re.findall(r"^ {4}(\S+)", read, re.MULTILINE)]
        ours = {os.path.relpath(path, PROJECT) for path in paths
                if path.startswith(PROJECT + "/") and not path.startswith(BUILD + "/")}
        self.assertIn("refract/client/client.h", ours)
        self.assertEqual({path for path in ours if not os.path.exists(os.path.join(alone, path))}, set())
        said = run("cmake", "-S", alone, "-B", os.path.join(alone, "build"), "-G", "Ninja",
                   "-DREFRACT_TESTS=OFF", "-DREFRACT_BENCH=OFF")
        self.assertNotIn("left out", said)
        run("ninja", "-C", os.path.join(alone, "build"), "-n", "refract_python")


if __name__ == "__main__":
    unittest.main()
