#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.connectors.fsspec with Debian's fsspec, pandas and dask, over shm and tcp. Some 6 s, half of them
imports.

Usage: fsspec_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE FOLDER_OF_THE_PROJECT [unittest arguments]
"""

import io
import os
import pickle
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import Node, Package, begin, environment, needs  # noqa: E402

PROJECT = os.path.abspath(sys.argv.pop(4))
begin()
needs("fsspec", "pandas", "dask")
import fsspec  # noqa: E402
import numpy  # noqa: E402
import pandas  # noqa: E402
import refract  # noqa: E402
from refract.connectors.fsspec import RefractFileSystem  # noqa: E402

# In a process of its own, as the package is not installed here: what an installation has beside it.
BY_ENTRY_POINT = """
import sys, fsspec
import numpy
url = f"refract://{sys.argv[1]}//data/"
with fsspec.open(url + "x.csv", "w") as file:
    file.write("a,b\\n1,2\\n")
with fsspec.open(url + "x.csv", "r") as file:
    print(file.read(), type(fsspec.filesystem("refract", address=sys.argv[1])).__name__)
print([name for name in sys.modules if name.split(".")[0] in ("pandas", "dask", "torch")])
"""


class Counted:
    """A client that counts how often all keys are looked at."""

    def __init__(self, client):
        self.client, self.scans = client, 0

    def __getattr__(self, name):
        self.scans += name == "scan"
        return getattr(self.client, name)


class EachWay:
    is_tcp = False

    @classmethod
    def setUpClass(cls):
        cls.node = Node("--memory-limit", "128MiB", "--listen-address", "127.0.0.1:0")
        cls.addClassCleanup(cls.node.__exit__)
        cls.address = f"refract://{cls.node.tcp_address}" if cls.is_tcp else cls.node.socket
        cls.client = refract.connect(cls.node.socket)
        cls.url = f"refract://{cls.node.tcp_address if cls.is_tcp else cls.node.socket}//"

    def setUp(self):
        for key in list(self.client.scan()):
            self.client.erase(key)
        self.files = fsspec.filesystem("refract", address=self.address)

    def test_a_url_opens_the_key_that_it_names(self):
        with fsspec.open(self.url + "data/x.bin", "wb") as file:
            file.write(b"abc")
            file.write(b"def")
        self.assertEqual(self.client.get("data/x.bin"), b"abcdef")
        with fsspec.open(self.url + "data/x.bin") as file:
            self.assertEqual((file.read(2), file.tell(), file.read(), file.read()), (b"ab", 2, b"cdef", b""))
            self.assertEqual((file.seek(-3, 2), file.read(1), file.seek(1), file.read(1)), (3, b"d", 1, b"b"))
            self.assertEqual((file.seek(100), file.read(), file.readline()), (100, b"", b""))
        self.assertTrue(file.closed)
        lines = [bytes([65 + n % 26]) * (n * 7 % 600) + b"\n" for n in range(200)] + [b"last"]
        self.client.put("lines", b"".join(lines))
        with self.files.open("lines") as file:
            self.assertEqual(file.readlines(), lines)
        with fsspec.open(self.url + "t.txt.gz", "wt", compression="infer", encoding="utf-16") as file:
            file.write("äöü\n" * 1000)
        self.assertLess(len(self.client.get("t.txt.gz")), 500)
        with fsspec.open(self.url + "t.txt.gz", "rt", compression="infer", encoding="utf-16") as file:
            self.assertEqual(file.readlines(), ["äöü\n"] * 1000)
        with self.assertRaises(FileNotFoundError):
            fsspec.open(self.url + "none").open()

    def test_pandas_and_numpy_write_and_read(self):
        frame = pandas.DataFrame({"a": range(2000), "b": [f"text {n}" for n in range(2000)]})
        frame.to_csv(self.url + "data/x.csv", index=False)
        pandas.testing.assert_frame_equal(pandas.read_csv(self.url + "data/x.csv"), frame)
        frame.to_json(self.url + "data/x.json", orient="records")
        pandas.testing.assert_frame_equal(pandas.read_json(self.url + "data/x.json"), frame)
        frame.to_csv("refract:////y.csv", index=False, storage_options={"address": self.address})
        self.assertEqual(self.client.get("y.csv"), self.client.get("data/x.csv"))
        array = numpy.arange(10_000.0).reshape(100, 100)
        with fsspec.open(self.url + "a.npy", "wb") as file:
            numpy.save(file, array)
        with fsspec.open(self.url + "a.npy") as file:
            numpy.testing.assert_array_equal(numpy.load(file), array)
        numpy.testing.assert_array_equal(self.client.array("a.npy"), array)
        self.client.put_array("b.npy", array)
        with self.files.open("b.npy") as file:
            numpy.testing.assert_array_equal(numpy.load(file), array)

    def test_dask_writes_many_files_and_reads_them(self):
        import dask
        from dask import dataframe

        frame = pandas.DataFrame({"a": range(3000), "b": [n / 7 for n in range(3000)]})
        with dask.config.set(scheduler="threads"):
            parts = dataframe.from_pandas(frame, npartitions=3)
            parts.to_csv(self.url + "out/part-*.csv", index=False)
            self.assertEqual(self.files.ls("out", detail=False), [f"out/part-{n}.csv" for n in range(3)])
            again = dataframe.read_csv(self.url + "out/part-*.csv", blocksize=5000)
            self.assertGreater(again.npartitions, 3)
            pandas.testing.assert_frame_equal(again.compute().reset_index(drop=True), frame)
            parts.to_json(self.url + "json/*.json", orient="records", lines=True)
            again = dataframe.read_json(self.url + "json/*.json", orient="records", lines=True)
            pandas.testing.assert_frame_equal(again.compute().reset_index(drop=True), frame)

    def test_directories_are_what_slashes_make_of_names(self):
        """Beside fsspec's own file system in memory: the same names, the same answers."""
        chance = random.Random(3)
        names = {"".join(chance.choice("abc") + "d/" for _ in range(depth)) + chance.choice("abc")
                 for depth in (0, 1, 2, 3) for _ in range(10)}
        names |= {"x.csv", "a.csv", "dir/x.csv", "dir/y.json", "dir.csv/z"}
        memory = fsspec.filesystem("memory")
        memory.store.clear()
        for name in names:
            self.files.pipe(name, name.encode())
            memory.pipe("/" + name, name.encode())

        def shown(found):
            return sorted(name.lstrip("/") for name in found)

        directories = sorted({name.rsplit("/", depth)[0] for name in names
                              for depth in range(1, name.count("/") + 1)})
        self.assertGreater(len(directories), 10)
        for one in ["", *directories]:
            theirs = "/" + one if one else ""
            self.assertEqual(self.files.ls(one, detail=False), shown(memory.ls(theirs, detail=False)), one)
            for depth in (None, 1, 2):
                for withdirs in (False, True):
                    self.assertEqual(self.files.find(one, depth, withdirs),
                                     shown(memory.find(theirs, depth, withdirs)), (one, depth, withdirs))
            self.assertEqual(self.files.info(one), {"name": one, "size": 0, "type": "directory"})
            self.assertEqual(self.files.du(one), memory.du(theirs))
            ours, others = ({top.lstrip("/"): (sorted(dirs), sorted(files)) for top, dirs, files in walk}
                            for walk in (self.files.walk(one), memory.walk(theirs)))
            self.assertEqual(ours, others)
        for pattern in ("*.csv", "**.csv", "dir/*", "*/*", "**", "ad/*", "[ab]", "none*"):
            self.assertEqual(shown(self.files.glob(pattern)), shown(memory.glob("/" + pattern)), pattern)
        for name in names:
            self.assertEqual(self.files.info(name), {"name": name, "size": len(name), "type": "file"})
            self.assertEqual((self.files.isfile(name), self.files.isdir(name)), (True, False))
            self.assertEqual(self.files.find(name), [name])
        self.assertEqual({info["name"]: info["size"] for info in self.files.find("", detail=True).values()},
                         {name: len(name) for name in names})
        for call in (self.files.ls, self.files.info, self.files.size):
            with self.assertRaises(FileNotFoundError):
                call("none/such")
        self.assertEqual((self.files.exists("none"), self.files.isfile("none"), self.files.isdir("none"),
                          self.files.find("none")), (False, False, False, []))

    def test_a_name_may_be_file_and_directory_and_keys_that_are_no_names_are_passed_over(self):
        for key in ("a", "a/b", b"\xff\xfe", "/c", "c/", "c//d", "ab"):
            self.client.put(key, b"1")
        self.assertEqual(self.files.find(""), ["a", "a/b", "ab"])
        self.assertEqual(self.files.ls("a", detail=False), ["a/b"])
        self.assertEqual(self.files.info("a")["type"], "file")
        self.files.rm("a", recursive=True)
        self.assertEqual(self.files.find(""), ["ab"])

    def test_files_are_copied_moved_and_removed(self):
        self.files.pipe({"d/a": b"0123456789", "d/e/b": b"bb"})
        self.assertEqual(self.files.cat("d", recursive=True, on_error="omit"),
                         {"d/a": b"0123456789", "d/e/b": b"bb"})
        parts = (self.files.cat_file("d/a", 2, 5), self.files.cat_file("d/a", -3),
                 self.files.tail("d/a", 2), self.files.head("d/a", 2))
        self.assertEqual(parts, (b"234", b"789", b"89", b"01"))
        self.files.cp("d/a", "copy")
        self.files.mv("copy", "moved")
        self.assertEqual((self.files.cat("moved"), self.files.exists("copy")), (b"0123456789", False))
        with tempfile.TemporaryDirectory() as folder:
            self.files.get("d", folder, recursive=True)
            with open(os.path.join(folder, "e", "b"), "rb") as file:
                self.assertEqual(file.read(), b"bb")
            self.files.put(os.path.join(folder, "a"), "again")
        self.assertEqual(self.files.cat("again"), b"0123456789")
        with self.assertRaises(IsADirectoryError):
            self.files.rm("d")
        with self.assertRaises(OSError):
            self.files.rmdir("d")
        self.files.makedirs("d/f", exist_ok=True)
        self.files.rm("d/a")
        self.files.rm(["d", "again"], recursive=True)
        self.assertEqual(self.files.find(""), ["moved"])
        self.files.rmdir("d")
        for call in (self.files.rm, self.files.rm_file, self.files.cat_file):
            with self.assertRaises(FileNotFoundError):
                call("d/a")
        with self.assertRaises(FileNotFoundError):
            self.files.cp_file("none", "x")
        store = self.files.get_mapper("zarr")
        store["a/0.0"] = b"1"
        self.assertEqual((dict(store), "a/0.0" in store), ({"a/0.0": b"1"}, True))
        del store["a/0.0"]
        self.assertEqual(len(store), 0)

    def test_a_file_is_there_when_it_is_closed_and_a_reader_has_what_was_there(self):
        self.client.put("a", b"old" * 50_000)
        draft = self.files.open("a", "wb")
        draft.write(b"new")
        with self.files.open("a") as file:
            self.assertEqual(file.read(3), b"old")
            draft.close()
            draft.close()
            self.assertEqual(file.read(), (b"old" * 50_000)[3:])
        self.assertEqual(self.files.cat("a"), b"new")
        with self.files.open("a", "xb") as file:
            file.write(b"not")
            with self.assertRaises(FileExistsError):
                file.close()
        self.assertEqual(self.files.cat("a"), b"new")
        with self.files.open("b", "xb") as file:
            file.write(b"is")
        self.assertEqual(self.files.cat("b"), b"is")
        self.files.touch("empty")
        with self.files.open("empty") as file:
            self.assertEqual((file.read(), self.files.size("empty")), (b"", 0))
        key = self.files.ukey("a")
        self.assertEqual(self.files.ukey("a"), key)
        self.client.put("a", b"new")
        self.assertNotEqual(self.files.ukey("a"), key)

    def test_a_transaction_writes_all_its_files_at_its_end_or_none(self):
        with self.files.transaction:
            for name in ("t/a", "t/b"):
                with self.files.open(name, "wb") as file:
                    file.write(name.encode())
            self.assertEqual(self.files.find("t"), [])
        self.assertEqual(self.files.cat("t/b"), b"t/b")
        with self.assertRaises(ZeroDivisionError), self.files.transaction:
            with self.files.open("t/c", "wb") as file:
                file.write(b"1")
            raise ZeroDivisionError
        self.assertFalse(self.files.isfile("t/c"))

    def test_what_cannot_be_says_so(self):
        self.client.put("a", b"1")
        for mode in ("ab", "r+b", "w+b", "a", "r+"):
            with self.assertRaisesRegex(io.UnsupportedOperation, "is written as a whole"):
                self.files.open("a", mode)
        self.assertEqual(self.client.get("a"), b"1")
        for name in ("a//b", "a///b", self.url + "a//b"):
            for call in (self.files.open, self.files.ls, self.files.rm, self.files.exists,
                         lambda name: self.files.open(name, "wb"),
                         lambda name: self.files.pipe_file(name, b"")):
                with self.assertRaisesRegex(ValueError, "empty part"):
                    call(name)
        for name in ("", "/", self.url):
            for call in (self.files.open, self.files.cat_file, lambda name: self.files.open(name, "wb")):
                with self.assertRaisesRegex(ValueError, "names no file"):
                    call(name)
        with self.assertRaisesRegex(ValueError, "refract://ADDRESS//NAME"):
            fsspec.open("refract:///run/refract/node.sock")
        with self.assertRaises(refract.TooLarge):
            self.files.pipe_file("k" * 70_000, b"1")
        self.assertEqual(self.files._strip_protocol("/a/"), "a")
        with self.assertRaises(ConnectionError):
            fsspec.filesystem("refract", address="/none/such.sock")
        with self.files.open("a") as file, self.assertRaises(io.UnsupportedOperation):
            file.write(b"1")
        with self.files.open("a") as file, self.assertRaises((ValueError, OSError)):
            file.seek(-5)

    def test_what_does_not_list_does_not_look_at_all_keys(self):
        files = RefractFileSystem(address=self.address, skip_instance_cache=True)
        files._client = counted = Counted(files.client)
        for number in range(50):
            files.pipe_file(f"d/{number}", b"1")
        with files.open("d/1") as file:
            file.read()
        files.cat(["d/1", "d/2"])
        files.cp("d/1", "e")
        files.rm("e")
        self.assertTrue(files.isfile("d/1") and files.exists("d/1") and files.size("d/1") == 1)
        self.assertEqual(counted.scans, 0)
        self.assertEqual(len(files.find("", detail=True)), 50)
        self.assertEqual(counted.scans, 1)
        files.glob("d/*")
        self.assertEqual(counted.scans, 2)

    def test_it_goes_to_other_processes_and_back_to_a_url(self):
        self.files.pipe("a/b", b"1")
        again = pickle.loads(pickle.dumps(self.files))
        self.assertEqual(again.cat("a/b"), b"1")
        url = self.files.unstrip_protocol("a/b")
        self.assertEqual(url, self.url + "a/b")
        with fsspec.open(url) as file:
            self.assertEqual(file.read(), b"1")
        short = fsspec.filesystem("refract", address=self.address, ttl=100)
        short.pipe("c", b"1")
        self.assertTrue(90 < self.client.ttl("c") <= 100)

    def test_a_child_of_a_fork_has_a_client_of_its_own(self):
        self.files.pipe("a", b"1")
        child = os.fork()
        if child == 0:
            os._exit(0 if self.files.cat("a") == b"1" and self.files.client.put("b", b"2") else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(self.files.cat("b"), b"2")

    def test_a_node_that_is_gone_is_no_file_that_is_missing(self):
        with Node("--memory-limit", "64MiB", "--listen-address", "127.0.0.1:0") as node:
            address = f"refract://{node.tcp_address}?transport=tcp" if self.is_tcp else node.socket
            files = fsspec.filesystem("refract", address=address, timeout=0.2)
            url = f"{files.unstrip_protocol('d/a')}"
            with fsspec.open(url, "wb", timeout=0.2) as file:
                file.write(b"1")
            self.assertEqual(files.cat("d/a"), b"1")
        for call in (files.ls, lambda name: files.pipe_file(name, b"1"),
                     lambda name: files.exists(name + "/no")):
            with self.assertRaises((ConnectionError, TimeoutError, refract.Indeterminate)):
                call("d/a")

    def test_files_that_were_read_hold_nothing(self):
        self.client.put("a", bytes(100_000))
        for _ in range(600):
            with self.files.open("a") as file:
                file.read(1)
        if not self.is_tcp:
            with self.files.client.view("a") as view:
                self.assertFalse(view.is_copy)


class OverShm(EachWay, unittest.TestCase):
    def test_fsspec_finds_it_by_the_entry_point_of_an_installation(self):
        sys.path.insert(0, os.path.join(PROJECT, "python", "backend"))
        import refract_build

        with tempfile.TemporaryDirectory() as folder:
            refract_build.prepare_metadata_for_build_wheel(folder)
            around = environment()
            around["PYTHONPATH"] = Package.folder + os.pathsep + folder
            words = [sys.executable, "-B", "-c", BY_ENTRY_POINT, self.node.socket]
            done = subprocess.run(words, text=True, capture_output=True, check=False, env=around)
        self.assertEqual(done.stdout, "a,b\n1,2\n RefractFileSystem\n[]\n", done.stderr)

    def test_files_are_read_while_the_server_is_stopped(self):
        self.client.put("a", b"1" * 100_000)
        with self.node.stopped_server():
            self.assertEqual(self.files.cat("a"), b"1" * 100_000)
            self.assertEqual(self.files.size("a"), 100_000)


class OverTcp(EachWay, unittest.TestCase):
    is_tcp = True


if __name__ == "__main__":
    unittest.main()
