#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.objects between processes, threads and the end of each: what is shared is one copy, and what one of
them leaves behind hurts no other.

Usage: processes_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import gc
import os
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import MIB, Programs, begin, beside, node_of_objects, run_python, until  # noqa: E402

begin()
import numpy  # noqa: E402
import refract  # noqa: E402
from refract import objects  # noqa: E402


class Processes(unittest.TestCase):
    def setUp(self):
        self.node = node_of_objects()
        self.addCleanup(self.node.__exit__)
        self.client = objects.connect(self.node.socket)
        self.addCleanup(self.client.close)

    def line_of(self, process):
        return process.stdout.readline().strip()

    def ended_well(self, done, printed=""):
        self.assertEqual((done.returncode, done.stdout), (0, printed), done.stderr)

    def test_two_processes_share_an_array_without_a_copy(self):
        """The reader's resident memory that is not shared does not grow with what it reads."""
        wanted = numpy.arange(4 * MIB, dtype="<u8")
        with beside("""
                client = objects.connect(sys.argv[1])
                held = client.get("numbers", timeout=None)
                def own_bytes():
                    with open("/proc/self/status") as status:
                        lines = [line for line in status if line.startswith("RssAnon")]
                    return int(lines[0].split()[1]) * 1024
                before = own_bytes()
                numbers = numpy.frombuffer(held, dtype="<u8")
                say(int(numbers.sum()), own_bytes() - before < 4 << 20, held.is_copy, numbers.flags.writeable)
                try:
                    memoryview(held)[0] = 1
                except TypeError:
                    say("refused")
                sys.stdin.readline()
                """, self.node.socket) as reader:
            self.client.put("numbers", wanted)
            self.assertEqual(self.line_of(reader), f"{wanted.sum()} True False False")
            self.assertEqual(self.line_of(reader), "refused")
            until(lambda: self.client.stat().held_bytes == 32 * MIB)
            self.assertTrue((numpy.frombuffer(self.client.get("numbers"), dtype="<u8") == wanted).all())
        until(lambda: self.client.stat().held == 0)

    def test_a_killed_creator_leaves_its_objects_and_none_that_it_was_making(self):
        with beside("""
                client = objects.connect(sys.argv[1])
                client.put("made", b"12345")
                new = client.create("making", 40 << 20)
                memoryview(new)[:5] = b"12345"
                held = client.get("made")
                say("there")
                sys.stdin.readline()
                """, self.node.socket) as creator:
            self.assertEqual(self.line_of(creator), "there")
            self.assertEqual(self.client.stat().creations, 1)
            creator.kill()
            creator.wait()
            until(lambda: self.client.stat().creations == 0 and self.client.stat().held == 0)
        self.assertEqual(bytes(self.client.get("made")), b"12345")
        with self.client.create("making", 40 * MIB) as again:
            memoryview(again)[:1] = b"x"

    def test_arrays_are_read_while_the_server_is_stopped_and_killed(self):
        self.client.put("a", numpy.ones(MIB))
        self.client.put("b", b"12345")
        array = numpy.frombuffer(self.client.get("a"))
        with self.node.stopped_server():
            self.assertEqual(array.sum(), MIB)
            self.assertEqual(bytes(self.client.get("b")), b"12345")
            self.assertEqual(self.client.get_many(["a", "none"])[1], None)
            with self.assertRaises(refract.NotFound):
                self.client.get("none")
        for _ in range(3):
            self.node.kill_server()
            self.assertEqual(array.sum(), MIB)
            self.assertEqual(bytes(self.client.get("b")), b"12345")
        self.client.put("c", b"1")
        self.assertEqual(self.client.delete("a"), 1)
        self.assertEqual(array.sum(), MIB)
        del array
        until(lambda: self.client.stat().removed == 0)

    def test_a_dead_node_is_told_and_what_is_held_stays(self):
        client = objects.connect(self.node.socket, timeout=0.5)
        client.put("a", numpy.ones(MIB))
        array = numpy.frombuffer(client.get("a"))
        server = self.node.server()
        self.node.process.kill()
        self.node.process.wait()
        os.kill(server, signal.SIGKILL)
        with self.assertRaises((refract.Unavailable, refract.Indeterminate)) as caught:
            client.put("b", b"1")
        self.assertIn("put of b'b'", str(caught.exception))
        self.assertEqual(array.sum(), MIB)
        client.close()
        self.assertEqual(array.sum(), MIB)

    def test_arrays_outlive_handle_client_and_thread(self):
        """And with the last of them their memory returns."""
        arrays = []

        def read():
            client = objects.connect(self.node.socket)
            for name in range(4):
                arrays.append(numpy.frombuffer(client.get(f"{name}"), dtype="u1"))
            arrays.append(client.get_value("value")["array"])
            client.close()

        for name in range(4):
            self.client.put(f"{name}", bytes([name]) * MIB)
        self.client.put_value("value", {"array": numpy.full(MIB, 7, dtype="u1")})
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        gc.collect()
        until(lambda: self.client.stat().held == 5)
        for name in range(4):
            self.client.delete(f"{name}")
        self.client.delete("value")
        self.client.put("other", bytes(8 * MIB))
        self.assertEqual([int(array[-1]) for array in arrays], [0, 1, 2, 3, 7])
        self.assertTrue(all((array == array[0]).all() for array in arrays))
        self.assertEqual(self.client.stat().removed, 5)
        slices = [array[100:200] for array in arrays]
        arrays.clear()
        gc.collect()
        self.assertEqual([int(each[0]) for each in slices], [0, 1, 2, 3, 7])
        slices.clear()
        gc.collect()
        until(lambda: self.client.stat().removed_bytes == 0)
        self.assertEqual(self.client.stat().used, 8 * MIB)

    def test_handles_in_cycles_go_with_the_garbage(self):
        self.client.put("a", bytes(MIB))
        for _ in range(100):
            cycle = {"held": self.client.get("a"), "new": None}
            cycle["itself"] = cycle
        del cycle
        gc.collect()
        until(lambda: self.client.stat().held == 0)

    def test_many_handles_are_held_at_once_and_too_many_are_refused(self):
        self.client.put("a", b"12345")
        held = []
        with self.assertRaises(refract.Overloaded) as caught:
            for _ in range(70_000):
                held.append(self.client.get("a"))
        self.assertIn("let go", str(caught.exception))
        self.assertGreater(len(held), 60_000)
        self.assertEqual(bytes(held[-1]), b"12345")
        held.clear()
        self.assertEqual(bytes(self.client.get("a")), b"12345")
        until(lambda: self.client.stat().held == 0)

    def test_threads_call_side_by_side(self):
        wrong = []

        def work(number):
            for turn in range(50):
                name, data = f"{number} {turn}", bytes([number]) * (turn * 997)
                self.client.put(name, data)
                if bytes(self.client.get(name)) != data or self.client.get_value("shared")["a"].sum() != 1000:
                    wrong.append(name)
                self.client.delete(name)

        self.client.put_value("shared", {"a": numpy.ones(1000)})
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        gc.collect()
        until(lambda: self.client.stat().held == 0)

    def test_a_thread_computes_while_another_waits_and_while_one_puts(self):
        """Counts turns: with the lock held, a wait would let none through."""
        with self.node.stopped_server():
            waiting = threading.Thread(target=self.client.get, args=("late", None))
            putting = threading.Thread(target=self.client.put, args=("late", bytes(MIB)))
            waiting.start()
            putting.start()
            end, turns = time.monotonic() + 0.3, 0
            while time.monotonic() < end:
                turns += 1
        waiting.join()
        putting.join()
        self.assertGreater(turns, 1000)

    def test_two_threads_in_one_new_object_are_kept_apart(self):
        new = self.client.create("a", 8 * MIB)
        outcomes = []

        def seal():
            try:
                outcomes.append(new.seal())
            except refract.InvalidArgument as error:
                outcomes.append(error)

        threads = [threading.Thread(target=seal) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum(isinstance(each, objects.Object) for each in outcomes), 1)
        self.assertEqual(len(outcomes), 4)

    def test_an_interrupt_ends_each_wait_of_the_main_thread(self):
        waits = ["client.get('none', None)", "client.get('none', 60)", "client.get_many(['a', 'none'], None)",
                 "client.prefetch(['none'], None)", "subscription.next()",
                 "client.create('large', 60 << 20, room_timeout=None)"]
        for wait in waits:
            if "large" in wait:
                held = self.client.create("a", 30 * MIB)
            with self.subTest(wait=wait), beside(f"""
                    import signal, threading
                    # What a shell starts in the background ignores it otherwise.
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                    client = objects.connect(sys.argv[1])
                    subscription = client.subscribe()
                    while subscription.next(0.01):
                        pass
                    threading.Timer(0.2, lambda: say("waiting")).start()
                    try:
                        {wait}
                    except KeyboardInterrupt:
                        say("interrupted")
                    """, self.node.socket) as process:
                self.assertEqual(self.line_of(process), "waiting")
                process.send_signal(signal.SIGINT)
                self.assertEqual(self.line_of(process), "interrupted")
                self.assertEqual(process.wait(), 0)
        held.abort()

    def test_after_a_fork_the_child_s_handles_say_so_and_it_connects_again(self):
        done = run_python("""
            client = objects.connect(sys.argv[1])
            client.put("a", numpy.arange(1000))
            held, new, subscription = client.get("a"), client.create("b", 100), client.subscribe()
            array = numpy.frombuffer(client.get("a"), dtype=int)
            calls = [lambda: client.get("a"), lambda: client.put("c", b""), lambda: client.stat(),
                     lambda: client.get_many(["a"])[0].args, lambda: client.create("d", 1), client.new_id,
                     lambda: client.list(), lambda: client.contains("a"), client.subscribe, subscription.next,
                     lambda: memoryview(held), held.digest, new.seal, new.abort, lambda: memoryview(new),
                     lambda: client.get_value("a"), lambda: client.delete("a"), lambda: client.keep("a"),
                     lambda: client.put_value("c", 1), lambda: client.evict(1)]
            child = os.fork()
            if child == 0:
                for number, call in enumerate(calls):
                    try:
                        said = call()
                        if number != 3 or "forked" not in said[0]:
                            say("no word of the fork:", number, said)
                    except refract.Forked as error:
                        if "connect()" not in str(error):
                            say(number, error)
                del held, new, client, subscription
                again = objects.connect(sys.argv[1])
                say(int(numpy.frombuffer(again.get("a"), dtype=int).sum()), int(array.sum()))
                sys.exit(0)
            ended = os.waitpid(child, 0)[1]
            memoryview(new)[:] = bytes(100)
            say(ended, len(new.seal()), len(held), client.stat().creations)
            """, self.node.socket)
        self.ended_well(done, "499500 499500\n0 100 8000 0\n")

    def test_children_of_multiprocessing_read_what_their_parent_made(self):
        for method in ("fork", "spawn"):
            with self.subTest(method=method):
                done = run_python(f"""
                    import multiprocessing
                    client = objects.connect(sys.argv[1])
                    client.put_value("{method}", numpy.ones(1000))
                    context = multiprocessing.get_context("{method}")
                    path = os.path.join(os.path.dirname(sys.argv[1]), "child_of_the_test.py")
                    with open(path, "w") as file:
                        file.write("from refract import objects\\n"
                                   "def total(address):\\n"
                                   " return float(objects.connect(address).get_value('{method}').sum())\\n")
                    sys.path.insert(0, os.path.dirname(path))
                    import child_of_the_test
                    with context.Pool(2) as pool:
                        say(pool.map(child_of_the_test.total, [sys.argv[1]] * 4))
                    """, self.node.socket)
                self.ended_well(done, "[1000.0, 1000.0, 1000.0, 1000.0]\n")

    def test_a_process_ends_quietly_whatever_is_alive(self):
        endings = {
            "arrays of a module": "arrays = [numpy.frombuffer(client.get('a'), 'u1') for _ in range(100)]",
            "handles in a cycle": "held = [client.get('a')]; held.append(held)",
            "a new object and its view": "new = client.create('new', 1000); view = memoryview(new)",
            "an object's __del__": """
class Late:
    def __del__(self):
        try:
            client.put('late', b'1')
            client.close()
        except Exception as error:
            pass
late = Late(); late.itself = late; late.client = client""",
            "a daemon that waits": """
import threading
threading.Thread(target=lambda: client.get('none', None), daemon=True).start()
threading.Thread(target=lambda: client.subscribe().next() and client.subscribe().next(), daemon=True).start()
time.sleep(0.1)""",
            "daemons that get, put and let go": """
import threading
def work(number):
    while True:
        held, name = client.get('a'), f'{os.getpid()} {number}'
        client.put(name, bytes(100_000)); client.delete(name)
        memoryview(held)
for number in range(4): threading.Thread(target=work, args=(number,), daemon=True).start()
time.sleep(0.1)""",
            "daemons that abandon what they make": """
import threading
def work(number):
    while True:
        new = client.create(f'{os.getpid()} {number}', 1000); del new
for number in range(4): threading.Thread(target=work, args=(number,), daemon=True).start()
time.sleep(0.1)""",
            "atexit": "import atexit; atexit.register(lambda: (client.get('a'), client.close()))",
            "a thread with a handle of its own": """
import threading
threading.Thread(target=lambda: globals().update(held=client.get('a'))).start()""",
        }
        self.client.put("a", bytes(100_000))
        for name, ending in endings.items():
            with self.subTest(name=name):
                done = run_python(f"client = objects.connect(sys.argv[1])\n{ending}\n", self.node.socket)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
        until(lambda: self.client.stat().held == 0 and self.client.stat().creations == 0)

    def test_memory_returns_when_a_reader_is_killed(self):
        self.client.put("a", bytes(30 * MIB))
        with beside("""
                client = objects.connect(sys.argv[1])
                arrays = [numpy.frombuffer(client.get("a"), dtype="u1") for _ in range(10)]
                say("held")
                sys.stdin.readline()
                """, self.node.socket) as reader:
            self.assertEqual(self.line_of(reader), "held")
            until(lambda: self.client.stat().held == 1)
            self.assertEqual(self.client.delete("a"), 10)
            with self.assertRaises(refract.NoSpace):
                self.client.put("b", bytes(40 * MIB), room_timeout=0.05)
            reader.kill()
            reader.wait()
        self.client.put("b", bytes(40 * MIB), room_timeout=30)

    def test_calls_of_each_kind_leave_memory_and_descriptors_flat(self):
        def resident():
            with open("/proc/self/status", encoding="ascii") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

        def some(turns):
            for _ in range(turns):
                self.client.put_value("v", {"a": numpy.ones(1000)})
                self.client.get_value("v")
                self.client.get_many(["v", "none"])
                self.client.list(all=True)
                with self.client.create("n", 1000) as new:
                    memoryview(new)[:] = bytes(1000)
                self.client.subscribe().next(0)
                for name in ("v", "n"):
                    self.client.delete(name)
                with self.assertRaises(refract.NotFound):
                    self.client.get("v")

        some(200)
        gc.collect()
        before, files = resident(), len(os.listdir("/proc/self/fd"))
        some(500)
        gc.collect()
        self.assertLess(resident() - before, 2048)
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)


if __name__ == "__main__":
    assert Programs.refractd
    unittest.main()
