#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package as it is built: what it needs, what it shows, its exceptions, types and texts.

Usage: module_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE FOLDER_OF_THE_PROJECT [unittest arguments]
"""

import ast
import glob
import inspect
import os
import pickle
import pydoc
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import Package, begin, needs, run_python  # noqa: E402

PROJECT = os.path.abspath(sys.argv.pop(4))
begin()
import refract  # noqa: E402
from refract import _refract, aio, objects, plasma, records  # noqa: E402

# libc, libstdc++ and OpenSSL; fmt is inside. RDMA's libraries are loaded where they are; there is nothing of
# Arrow.
NEEDED = {"linux-vdso", "ld-linux-x86-64", "libc", "libm", "libstdc++", "libgcc_s", "libcrypto"}
SANITIZED = {"libclang_rt.asan-x86_64", "libdl", "libpthread", "librt", "libresolv"}
# Of the protocols of Python 3.11 these are slots, and of no name in the class.
SLOTS = {"__bytes__", "__buffer__"}


def extension():
    [path] = glob.glob(os.path.join(Package.folder, "refract", "_refract.*.so"))
    return path


class Extension(unittest.TestCase):
    def test_needs_no_library_but_these(self):
        said = subprocess.run(["ldd", extension()], capture_output=True, text=True, check=True).stdout
        names = {os.path.basename(line.split()[0]).split(".so")[0] for line in said.splitlines()}
        self.assertEqual(names - NEEDED - (SANITIZED if is_sanitized() else set()), set(), said)

    def test_shows_nothing_of_ours_but_its_beginning(self):
        names = subprocess.run(["nm", "-DC", "--defined-only", extension()], capture_output=True, text=True,
                               check=True).stdout
        ours = [line for line in names.splitlines() if " T " in line and "refract::" in line]
        self.assertEqual(ours, [])
        self.assertIn("PyInit__refract", names)

    def test_is_imported_without_numpy(self):
        done = run_python("""
            del sys.modules["numpy"]
            sys.modules["numpy"] = None
            for name in [name for name in sys.modules if name.startswith("refract")]:
                del sys.modules[name]
            from refract import objects, plasma
            say(objects.connect.__name__)
            """)
        self.assertEqual((done.returncode, done.stdout), (0, "connect\n"), done.stderr)


# What the client of asyncio has, and what it gives to the body of a transaction.
AWAITED = """get get_versioned put erase exists cas ttl add scan get_many put_many exists_many view array
get_into get_many_into prefix_exists put_array build reserve transaction ping route close"""
AWAITED_INSIDE = "get get_many exists put erase add validate"
# What a person writes, and mypy's words for what is wrong in it.
PROGRAM = """
import asyncio

import numpy
import refract
import refract.aio

client = refract.connect("/run/refract/node.sock", timeout=1.5)
version: int = client.put("a", b"1", ttl=30, if_absent=True)
client.put(b"b", memoryview(b"1"))
value: bytes = client.get("a")
perhaps: bytes | None = client.get("a", None)
number: bytes | int = client.get("a", 5, timeout=1)
for key in client.scan("user:"):
    print(key.decode())
for outcome in client.get_many(["a", b"b"]):
    if isinstance(outcome, refract.Error):
        raise outcome
    print(outcome is not None and len(outcome))
print(client.put_many({"a": b"1"}), client.put_many([("a", b"1")]), client.exists_many(["a"]))


def move(t: refract.Transaction) -> int:
    t.add("alice", -10)
    return len(t.get("bob"))


moved: int = client.transaction(move, timeout=1)
route: refract.Route = client.route()
left = client.ttl("a")
reveal = left + 1
with client.view("a") as view:
    seen: bytes = bytes(view) + view.to_pybytes()
    put_again: int = client.put("a", b"2", if_version=view.version)
client.put_array("b", [1, 2], ttl=5)
total: float = client.array("b").sum()
with client.build("c", (3, 4), "f8") as building:
    building[...] = 1
with client.reserve(100) as reserved:
    reserved.resize(50)
    client.put("d", reserved)
room = bytearray(100)
length: int = client.get_into("a", room) + client.prefix_exists(["a"])
for each in client.get_many_into(["a", "b"], [room, (0x1000, 0)]):
    if isinstance(each, refract.TooLarge):
        print(each.value_bytes)


async def later() -> int:
    async with await refract.aio.connect(timeout=1.5) as other:
        value: bytes = await other.get("a")
        either: bytes | None = await asyncio.create_task(other.get("a", None))
        version: int = await asyncio.wait_for(other.put("a", b"1", ttl=30), 1)
        async for key in other.scan("user:"):
            print(key.decode(), value, either, version)

        async def count(t: refract.aio.Transaction) -> int:
            t.add("alice", -10)
            return len(await t.get("bob"))

        async with other.view("a") as view, other.reserve(100) as reserved:
            seen: bytes = bytes(view) + (await other.view("a")).to_pybytes()
            reserved.resize(len(seen))
        held: refract.Reservation = await other.reserve(100)
        length: int = await other.get_into("a", held) + await other.put_array("b", [1])
        async with other.build("c", (3, 4), "f8") as building:
            building[...] = length
        for each in await other.get_many_into(["a"], [held]):
            if isinstance(each, refract.TooLarge):
                print(each.value_bytes)
        wrong: str = await other.get("a")
        return await other.transaction(count)


text: str = client.get("a")
client.get(5)
client.put("a", b"1", ttl="30")
client.nothing()
client.view("a").version = 5
"""
WRONG = [
    'Unsupported operand types for + ("None" and "int")  [operator]',
    'Incompatible types in assignment (expression has type "bytes", variable has type "str")  [assignment]',
    'Incompatible types in assignment (expression has type "bytes", variable has type "str")  [assignment]',
    'No overload variant of "get" of "Client" matches argument type "int"  [call-overload]',
    'Argument "ttl" to "put" of "Client" has incompatible type "str"; expected "Optional[float]"  [arg-type]',
    '"Client" has no attribute "nothing"  [attr-defined]',
    'Property "version" defined in "View" is read-only  [misc]',
]
# What pybind11 made has no `self` for stubtest; the tests above compare it. Values cannot be seen.
STUBS_CANNOT = r"""
refract._refract.(ObjectsClient|Buffer|View|Object|NewObject|Subscription)(\..*)?
refract._refract.(Array|Data|Id|Key|Target|_T|connect_objects)
refract._refract.[A-Za-z]+.(__exit__|__buffer__)
"""


def check_types(tool, *words, folder, package=None):
    path = package or Package.folder
    return subprocess.run([sys.executable, "-m", tool, *words], capture_output=True, text=True, check=False,
                          cwd=folder, env={**os.environ, "PYTHONPATH": path, "MYPYPATH": path,
                                           "LD_PRELOAD": Package.preload,
                                           "MYPY_CACHE_DIR": os.path.join(folder, "cache")})


def is_sanitized():
    return "libclang_rt.asan" in Package.preload


class Exceptions(unittest.TestCase):
    def rows(self):
        with open(os.path.join(PROJECT, "refract/base/codes.def"), encoding="utf-8") as table:
            return re.findall(r'REFRACT_CODE\(k\w+, \d+, "(\w+)", \w+, k(\w+), "([^"]+)"', table.read())

    def test_are_one_for_each_code_with_its_name_and_retry(self):
        classes = {each.code: each for each in vars(_refract).values()
                   if isinstance(each, type) and refract.Error in each.__mro__[1:]}
        rows = self.rows()
        self.assertEqual(set(classes), {text for text, _, _ in rows} - {"ok"})
        for text, retry, _ in rows[1:]:
            one = classes[text]
            self.assertEqual(one.retry, retry.lower())
            self.assertTrue(one.__doc__.startswith(text + ": "))
            self.assertIs(getattr(refract, one.__name__), one)
            self.assertIn(one.__name__, refract.__all__)

    def test_are_those_of_python_too(self):
        for one, base in ((refract.NotFound, KeyError), (refract.InvalidArgument, ValueError),
                          (refract.Unavailable, ConnectionError), (refract.Away, ConnectionError),
                          (refract.DeadlineExceeded, TimeoutError), (refract.AccessDenied, PermissionError),
                          (refract.Forked, RuntimeError), (refract.SystemRefused, OSError)):
            self.assertTrue(issubclass(one, base))
        self.assertEqual(refract.Indeterminate.__mro__[1:3], (refract.Error, Exception))

    def test_print_their_sentence_and_can_be_sent_to_other_processes(self):
        for one in (refract.NotFound, refract.NoSpace, refract.Unavailable):
            error = one("a sentence\n  what to do")
            self.assertEqual(str(error), "a sentence\n  what to do")
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again)), (one, str(error)))


class Texts(unittest.TestCase):
    def stub(self):
        with open(os.path.join(Package.folder, "refract", "_refract.pyi"), encoding="utf-8") as file:
            return ast.parse(file.read())

    def test_stubs_have_each_name_of_the_extension_and_no_other(self):
        classes, functions = {}, set()
        for node in self.stub().body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name] = {getattr(each, "name", "") or each.target.id for each in node.body
                                      if isinstance(each, (ast.FunctionDef, ast.AnnAssign))}
            elif isinstance(node, ast.FunctionDef):
                functions.add(node.name)
        there = {name: each for name, each in vars(_refract).items() if not name.startswith("__")}
        self.assertEqual(set(classes) | functions, set(there))
        inherited = set(dir(object)) | {"__module__", "__dict__", "__weakref__", "__doc__"}
        for name, known in classes.items():
            own = {each for each in vars(there[name])
                   if each not in inherited and not each.startswith("_pybind11")}
            # A stub says again what returns the subclass.
            above = {each for base in there[name].__mro__[1:] for each in vars(base)}
            if not issubclass(there[name], Exception):
                self.assertEqual(known - SLOTS - (above - own), own - {"__repr__"}, name)

    def test_stubs_have_the_parameters_of_the_extension(self):
        for node in self.stub().body:
            if not isinstance(node, ast.ClassDef) or node.name.endswith("Error"):
                continue
            for each in node.body:
                if not isinstance(each, ast.FunctionDef) or each.name.startswith("__") or each.decorator_list:
                    continue
                real = inspect.signature(getattr(getattr(_refract, node.name), each.name))
                given = each.args.posonlyargs + each.args.args
                known = [argument.arg for argument in given[1:] + each.args.kwonlyargs]
                self.assertEqual([name for name in real.parameters if name != "self"], known, each.name)

    def test_the_client_of_asyncio_has_the_calls_of_the_other_with_the_same_parameters(self):
        for one, other, needed in ((refract.Client, aio.Client, AWAITED),
                                   (refract.Transaction, aio.Transaction, AWAITED_INSIDE)):
            names = {name for name in vars(other) if not name.startswith("_")} - {"is_closed", "address"}
            self.assertEqual(names, set(needed.split()))
            for name in names:
                self.assertEqual(str(inspect.signature(getattr(one, name))),
                                 str(inspect.signature(getattr(other, name))), name)

    def test_asyncio_is_imported_by_those_that_need_it(self):
        done = run_python("""
            say('asyncio' in sys.modules, refract.aio.connect.__name__, 'asyncio' in sys.modules)
            """)
        self.assertEqual((done.returncode, done.stdout), (0, "False connect True\n"), done.stderr)

    def test_the_package_says_that_it_has_types(self):
        self.assertTrue(os.path.exists(os.path.join(Package.folder, "refract", "py.typed")))

    def test_help_explains_each_public_name(self):
        for module in (refract, aio, objects, plasma):
            text = pydoc.render_doc(module, renderer=pydoc.plaintext)
            self.assertNotIn("pybind11_object", text.replace("pybind11_builtins.pybind11_object", ""))
            self.assertIn("from refract import", text)
        text = pydoc.render_doc(refract, renderer=pydoc.plaintext)
        for shown in ("get(self, /, key, default=Ellipsis, *, timeout=None)",
                      "connect(address='', *, secret_file=''",
                      "put(self, /, key, value, *, ttl=None, if_absent=False", "the entry is gone"):
            self.assertTrue(shown in text, shown)
        for module in (refract, aio, objects, plasma):
            for name in module.__all__:
                self.assertTrue(getattr(module, name).__doc__, name)
        text = pydoc.render_doc(aio, renderer=pydoc.plaintext)
        for shown in ("get(self, /, key, default=Ellipsis, *, timeout=None)", "connect(address",
                      "does not leave the coroutine", "the entry is gone", "body has returned"):
            self.assertTrue(shown in text, shown)
        for one in (refract.Client, refract.Transaction, refract.View, refract.Reservation, refract.Build,
                    aio.Build, aio.Client, aio.Transaction, aio.Call, objects.Client, objects.Object,
                    objects.NewObject, objects.Subscription,
                    plasma.PlasmaClient, plasma.ObjectID):
            for name, each in vars(one).items():
                if not name.startswith("_"):
                    text = inspect.getdoc(each) or ""
                    is_plasma_s = name in ("get_notification_socket", "decode_notifications", "to_capsule")
                    self.assertTrue(text or is_plasma_s, name)
                    self.assertNotIn("self: ", text, f"{name} shows what pybind11 writes")
        self.assertTrue(records.Stat.__doc__)

    def test_mypy_takes_the_package_in_strict_mode_and_what_a_program_writes(self):
        """Some 15 s, most of it the time in which mypy reads its own stubs of Python."""
        needs("mypy")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program.py")
            with open(program, "w", encoding="utf-8") as file:
                file.write(PROGRAM)
            plugs = os.path.join(folder, "plugs.py")
            with open(plugs, "w", encoding="utf-8") as file:
                file.write("from refract.connectors import fsspec, lmcache, sglang\n")
            done = check_types("mypy", "--strict", program, plugs, folder=folder)
            wrong = [line.split(": ", 2)[2] for line in done.stdout.splitlines() if ": error: " in line]
            self.assertEqual(wrong, WRONG, done.stdout + done.stderr)
            # No name is missing in the stubs, and none is in them alone.
            allowed = os.path.join(folder, "allowed")
            with open(allowed, "w", encoding="utf-8") as file:
                file.write(STUBS_CANNOT)
            done = check_types("mypy.stubtest", "refract._refract", "--allowlist", allowed,
                               "--ignore-unused-allowlist", folder=folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            # And a name that is missing would be found.
            shutil.copytree(os.path.join(Package.folder, "refract"), os.path.join(folder, "refract"))
            stub = os.path.join(folder, "refract", "_refract.pyi")
            with open(stub, encoding="utf-8") as file:
                text = file.read()
            with open(stub, "w", encoding="utf-8") as file:
                file.write(text.replace("    def exists_many(self", "    def exists_any(self"))
            done = check_types("mypy.stubtest", "refract._refract", "--allowlist", allowed,
                               "--ignore-unused-allowlist", folder=folder, package=folder)
            self.assertIn("Client.exists_many is not present in stub", done.stdout)
            self.assertIn("Client.exists_any is not present at runtime", done.stdout)

    def test_the_page_lists_each_call_of_plasma_that_differs(self):
        with open(os.path.join(PROJECT, "docs/python.md"), encoding="utf-8") as file:
            page = file.read()
        for name in ("get_notification_socket", "decode_notifications", "to_capsule", "set_client_options",
                     "serialization_context", "memcopy_threads", "delete", "create", "hash", "list", "evict",
                     "start_plasma_store", "PlasmaBuffer", "ArrowException"):
            self.assertIn(f"`{name}", page)


if __name__ == "__main__":
    unittest.main()
