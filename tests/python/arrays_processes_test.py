#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Views and arrays beside writers, servers and nodes that are stopped and killed, threads, forks, and ends of
processes. Some 15 s. $REFRACT_ARRAY_CALLS: how many calls of each kind are to leave memory as it was.

Usage: arrays_processes_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import gc
import os
import queue
import random
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import MIB, Node, Package, begin, beside, run_python, until  # noqa: E402

begin()
import numpy  # noqa: E402
import refract  # noqa: E402

PINS = 255
CALLS = int(os.environ.get("REFRACT_ARRAY_CALLS", "400"))
UNKNOWN = (refract.Indeterminate, refract.Unavailable, refract.DeadlineExceeded)


def resident_kib():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


class ArrayProcesses(unittest.TestCase):
    def setUp(self):
        self.node = Node("--memory-limit", "192MiB", "--listen-address", "127.0.0.1:0")
        self.addCleanup(self.node.__exit__)
        self.tcp = f"refract://{self.node.tcp_address}?transport=tcp"
        self.client = refract.connect(self.node.socket)
        self.addCleanup(self.client.close)

    def line_of(self, process):
        return process.stdout.readline().strip()

    def ended_well(self, done, printed=""):
        self.assertEqual((done.returncode, done.stdout), (0, printed), done.stderr)

    def overwritten(self, key, times=40, length=MIB):
        """What was there is not there any more, unless something holds it."""
        for number in range(times):
            self.client.put(key, bytes([number % 100 + 100]) * length)

    def test_what_is_read_in_place_continues_while_the_server_is_stopped_and_killed(self):
        a = numpy.arange(200_000)
        self.client.put_array("a", a)
        before = self.client.array("a")
        room = bytearray(a.nbytes + 128)
        with self.node.stopped_server():
            self.assertTrue((self.client.array("a") == a).all())
            self.assertEqual(self.client.get_many_into(["a", "none"], [room, bytearray()])[1], None)
            self.assertEqual(room[128:], a.tobytes())
            self.assertEqual(self.client.get_into("a", room), len(self.client.view("a")))
            self.assertEqual(self.client.prefix_exists(["a", "b"]), 1)
        for _ in range(2):
            self.node.kill_server()
            self.assertTrue((self.client.array("a") == a).all())
            until(self.may_put)
            self.assertTrue((before == a).all())
        # A server that comes back finds what is held.
        self.client.erase("a")
        self.overwritten("b", 200)
        self.assertTrue((before == a).all())

    def may_put(self):
        try:
            return self.client.put("b", b"2") > 0
        except UNKNOWN:
            return False

    def test_what_is_held_stays_when_the_whole_node_is_killed(self):
        value = os.urandom(MIB)
        self.client.put("a", value)
        view = self.client.view("a")
        a = numpy.frombuffer(view, "u1")
        server = self.node.server()
        self.node.process.kill()
        self.node.process.wait()
        os.kill(server, signal.SIGKILL)
        self.assertRaises(UNKNOWN, self.client.put, "a", b"", timeout=0.2)
        self.client.close()
        self.assertEqual((bytes(view), a.tobytes()), (value, value))

    def test_a_view_never_changes_under_a_writer_at_its_full_rate(self):
        """Each value is of one number and has its sum at the end; each read is checked, some of them late."""
        with beside("""
                client = refract.connect(sys.argv[1])
                say("begins")
                number = 0
                while True:
                    number += 1
                    client.put_array(f"a{number % 3}", numpy.full(3_000 + number % 5_000, number))
                    client.put(f"b{number % 3}", number.to_bytes(8, "little") * (20 + number % 2_000))
                """, self.node.socket) as writer:
            self.assertEqual(self.line_of(writer), "begins")
            tcp = refract.connect(self.tcp)
            for client in (self.client, tcp):
                until(lambda client=client: all(client.exists(kind + i) for kind in "ab" for i in "012"))
            is_over, wrong, counts, random_ = time.monotonic() + 2, [], {}, random.Random(5)
            kept = []
            while time.monotonic() < is_over:
                for client, key in ((client, kind + str(i)) for client in (self.client, tcp) for kind in "ab"
                                    for i in range(3)):
                    if key[0] == "a":
                        items = client.array(key)
                    else:
                        items = numpy.frombuffer(client.view(key), "<u8")
                    if random_.random() < 0.1:
                        kept.append((items, items[0]))
                    elif (items != items[0]).any():
                        wrong.append(key)
                    counts[client] = counts.get(client, 0) + 1
                if len(kept) > 200:
                    kept.pop(random_.randrange(len(kept)))
                items, first = random_.choice(kept or [(items, items[0])])
                if (items != first).any():
                    wrong.append("kept")
            for items, first in kept:
                if (items != first).any():
                    wrong.append("kept")
            self.assertEqual(wrong, [])
            self.assertGreater(min(counts.values()), 50)
            writer.kill()

    def test_pins_come_back_in_any_order_and_from_other_threads(self):
        self.client.put("a", bytes(10_000))
        self.client.put_array("b", numpy.arange(5_000))
        order = random.Random(3)
        for turn in range(6):
            held = []
            for number in range(PINS):
                view = self.client.view("a") if number % 2 else self.client.array("b")
                held.append([view, memoryview(view)[5:]][number % 3 == 0])
            del view
            self.assertTrue(self.client.view("a").is_copy)
            order.shuffle(held)
            if turn % 2:
                given = queue.SimpleQueue()
                for one in held:
                    given.put(one)
                del one
                held.clear()

                def let_go(given=given):
                    while not given.empty():
                        given.get_nowait()

                threads = [threading.Thread(target=let_go) for _ in range(1)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            else:
                while held:
                    held.pop()
            again = [self.client.view("a") for _ in range(PINS)]
            self.assertFalse(any(view.is_copy for view in again), turn)
            del again

    def test_a_thread_may_end_before_its_views(self):
        self.client.put("a", b"x" * 10_000)
        made = []
        for _ in range(5):
            thread = threading.Thread(target=lambda: made.extend(self.client.view("a") for _ in range(50)))
            thread.start()
            thread.join()
        self.overwritten("a", 40, 10_000)
        self.assertTrue(all(bytes(view) == b"x" * 10_000 and not view.is_copy for view in made))

    def test_ends_of_processes_give_back_what_they_held(self):
        """The node has room for some 200 values of that length: these together hold more."""
        for ending in ("sys.exit()", "os.kill(os.getpid(), 9)", "held.append(held); refract.held = held"):
            done = run_python(f"""
                client = refract.connect(sys.argv[1])
                held = []
                for number in range(60):
                    client.put("a", bytes([number]) * 900_000)
                    view = client.view("a")
                    held.append([view, memoryview(view)[9:], numpy.frombuffer(view, "u1")][number % 3])
                assert not client.view("a").is_copy
                say("holds")
                {ending}
                """, self.node.socket)
            self.assertEqual((done.stdout, done.stderr), ("holds\n", ""), ending)
        until(lambda: all(isinstance(each, int)
                          for each in self.client.put_many({f"b{i}": bytes(900_000) for i in range(120)})))

    def test_a_process_that_is_killed_leaves_whole_arrays(self):
        for call in ("client.put_array('a', numpy.full(300_000, number % 256, 'u1'))",
                     "with client.build('a', 300_000, 'u1') as a: a[...] = number % 256"):
            with beside(f"""
                    client = refract.connect(sys.argv[1])
                    say("begins")
                    for number in range(1_000_000):
                        {call}
                    """, self.node.socket) as writer:
                self.assertEqual(self.line_of(writer), "begins")
                until(lambda: self.client.exists("a"))
                time.sleep(0.1)
                writer.kill()
                writer.wait()
            a = self.client.array("a")
            self.assertTrue(a.shape == (300_000,) and (a == a[0]).all())
            self.client.erase("a")

    def test_calls_end_with_an_outcome_when_the_server_is_killed_beside_them(self):
        a = numpy.arange(100_000)
        for address in (self.node.socket, self.tcp):
            client, wrong, is_over, done = refract.connect(address), [], threading.Event(), [0]

            def work(client=client, wrong=wrong, is_over=is_over, done=done):
                room = numpy.zeros(a.nbytes + 128, "u1")
                while not is_over.is_set():
                    try:
                        client.put_array("a", a)
                        with client.build("b", 50_000) as b:
                            b[...] = 1
                        if not ((client.array("a") == a).all() and (client.array("b") == 1).all()):
                            wrong.append("array")
                        if client.get_into("a", room) != room.size or room[128:].tobytes() != a.tobytes():
                            wrong.append("into")
                        outcomes = client.get_many_into(["a", "none"], [room, bytearray()])
                        if not isinstance(outcomes[0], (int, *UNKNOWN)):
                            wrong.append(outcomes)
                    except (*UNKNOWN, refract.NotFound):
                        pass
                    done[0] += 1

            thread = threading.Thread(target=work)
            thread.start()
            for _ in range(2):
                before = done[0]
                until(lambda before=before, done=done: done[0] > before + 2)
                self.node.kill_server()
            is_over.set()
            thread.join()
            self.assertEqual(wrong, [])

    def test_an_interrupt_ends_each_call_that_waits(self):
        """The server is stopped, so that it would be 60 s; a handler of a signal runs meanwhile."""
        with beside("""
                import signal, threading
                signal.signal(signal.SIGINT, signal.default_int_handler)
                client, tcp = (refract.connect(address, timeout=60) for address in sys.argv[1:])
                client.put_array("a", numpy.zeros(100_000))
                tcp.array("a")
                room = [bytearray(900_000) for _ in range(4)]
                def build(client):
                    with client.build("b", 100_000) as b:
                        b[...] = 1
                say("ready")
                for call in iter(sys.stdin.readline, ""):
                    threading.Timer(0.1, say, ["waits"]).start()
                    try:
                        eval(call)
                    except KeyboardInterrupt:
                        say("interrupted")
                sys.stdin.close()
                for one in (client, tcp):
                    say(one.get_many_into(["a"] * 4, room), one.array("a").sum())
                """, self.node.socket, self.tcp) as process:
            self.assertEqual(self.line_of(process), "ready")
            with self.node.stopped_server():
                for call in ("client.put_array('b', numpy.zeros(100_000))", "build(client)", "build(tcp)",
                             "tcp.view('a')", "tcp.array('a')", "tcp.get_into('a', room[0])",
                             "tcp.get_many_into(['a'] * 4, room)", "tcp.prefix_exists(['a', 'b'])"):
                    with self.subTest(call=call):
                        process.stdin.write(call + "\n")
                        process.stdin.flush()
                        self.assertEqual(self.line_of(process), "waits")
                        begun = time.monotonic()
                        process.send_signal(signal.SIGINT)
                        self.assertEqual(self.line_of(process), "interrupted")
                        self.assertLess(time.monotonic() - begun, 20)
            process.stdin.close()
            for _ in range(2):
                self.assertEqual(self.line_of(process), "[800128, 800128, 800128, 800128] 0.0")

    def test_timeouts_of_calls_are_kept(self):
        tcp = refract.connect(self.tcp)
        tcp.put_array("a", numpy.zeros(100_000))
        room = bytearray(900_000)
        with self.node.stopped_server():
            begun = time.monotonic()
            for call in (lambda: tcp.view("a", timeout=0.05), lambda: tcp.array("a", timeout=0.05),
                         lambda: tcp.get_into("a", room, timeout=0.05),
                         lambda: tcp.prefix_exists(["a"], timeout=0.05)):
                self.assertRaises(refract.DeadlineExceeded, call)
            self.assertEqual([type(each) for each in tcp.get_many_into(["a"] * 2, [room] * 2, timeout=0.05)],
                             [refract.DeadlineExceeded] * 2)
            self.assertRaises(refract.Indeterminate, tcp.put_array, "b", numpy.zeros(9_000), timeout=0.05)
            self.assertLess(time.monotonic() - begun, 20)
        self.assertEqual(tcp.get_into("a", room), 800_128)

    def test_buffers_are_held_as_long_as_a_call_takes(self):
        """Others find them in use; and what is freed meanwhile is freed behind it."""
        tcp = refract.connect(self.tcp)
        self.client.put("a", b"v" * (4 * MIB))
        target, refused = bytearray(4 * MIB), []
        outcomes = []
        with self.node.stopped_server():
            calls = [threading.Thread(target=lambda: outcomes.append(tcp.get_into("a", target))),
                     threading.Thread(target=lambda: outcomes.extend(
                         tcp.get_many_into(["a"], [numpy.zeros(4 * MIB, "u1")]))),
                     threading.Thread(target=lambda: tcp.put_array("b", numpy.full(MIB, 7, "u1")))]
            for call in calls:
                call.start()
            time.sleep(0.2)
            for _ in range(100):
                try:
                    target.extend(b"x")
                except BufferError:
                    refused.append(1)
            gc.collect()
        for call in calls:
            call.join()
        self.assertEqual((len(refused), outcomes), (100, [4 * MIB] * 2))
        self.assertEqual(target, b"v" * (4 * MIB))
        self.assertTrue((self.client.array("b") == 7).all())

    def test_a_thread_computes_while_others_copy_and_wait(self):
        tcp = refract.connect(self.tcp)
        self.client.put_array("a", numpy.zeros(MIB))
        room = numpy.zeros(9 * MIB, "u1")
        with self.node.stopped_server():
            for call in (lambda: tcp.get_into("a", room, timeout=0.4),
                         lambda: tcp.get_many_into(["a"], [room], timeout=0.4),
                         lambda: tcp.array("a", timeout=0.4),
                         lambda: self.client.put_array("b", numpy.zeros(MIB), timeout=0.4)):
                is_over = threading.Event()

                def work(call=call, is_over=is_over):
                    try:
                        call()
                    except UNKNOWN:
                        pass
                    is_over.set()

                threading.Thread(target=work).start()
                begun, slices = time.monotonic(), set()
                while not is_over.is_set():
                    slices.add(int((time.monotonic() - begun) * 20))
                self.assertGreater(len(slices), 4)

    def test_after_a_fork_the_child_s_handles_say_so_and_the_parent_s_stay(self):
        done = run_python("""
            client = refract.connect(sys.argv[1])
            a = numpy.arange(100_000)
            client.put_array("a", a)
            view, array = client.view("a"), client.array("a")
            reservation, build = client.reserve(100_000), client.build("b", 100)
            room = bytearray(900_000)
            calls = [lambda: bytes(view), lambda: memoryview(view), lambda: client.view("a"),
                     lambda: client.array("a"), lambda: client.put_array("a", a),
                     lambda: client.get_into("a", room), lambda: client.get_many_into(["a"], [room])[0],
                     lambda: client.prefix_exists(["a"]), lambda: client.reserve(5),
                     lambda: memoryview(reservation), lambda: client.put("a", reservation),
                     lambda: build.__enter__(), lambda: client.build("c", 5)]
            if os.fork() == 0:
                for number, call in enumerate(calls):
                    try:
                        said = call()
                        if not isinstance(said, refract.Forked):
                            say("no word of the fork:", number, said)
                    except refract.Forked:
                        pass
                say((array == a).all())  # Its parent holds it.
                again = refract.connect(sys.argv[1])
                say((again.array("a") == a).all())
                # What goes here is the parent's still.
                del view, array, reservation, build, calls
                sys.exit(0)
            say(os.wait()[1])
            for number in range(200):
                client.put("a", bytes([number]) * 800_000)
            say((array == a).all(), bytes(view)[128:] == a.tobytes())
            with build as b:
                b[...] = 1
            say(client.array("b").sum())
            """, self.node.socket)
        self.ended_well(done, "True\nTrue\n0\nTrue True\n100.0\n")

    def test_a_process_ends_quietly_whatever_is_alive(self):
        self.client.put_array("a", numpy.arange(100_000))
        endings = {
            "arrays": "held = [client.array('a')[5:], client.view('a'), memoryview(client.view('a'))]",
            "a cycle": "held = [client.array('a'), client.reserve(9_000)]; held.append(held)",
            "a build": "build = client.build('b', 5); a = build.__enter__()",
            "a closed client": "a = client.array('a'); client.close()",
            "a __del__": """
class Late:
    def __del__(self):
        try:
            self.view = client.view('a')
            client.array('a'), client.put_array('b', self.a), client.get_into('a', bytearray(900_000))
        except Exception:
            pass
late = Late(); late.itself = late; late.client = client; late.a = client.array('a')""",
            "daemons": """
import threading
def work(number):
    room = bytearray(900_000)
    while True:
        a = client.array('a')
        client.put_array(f'{os.getpid()} {number}', a)
        client.get_many_into(['a'] * 3, [room] * 3)
        with client.build(f'{number}', 9_000) as b: b[...] = 1
for number in range(4): threading.Thread(target=work, args=(number,), daemon=True).start()
time.sleep(0.1)""",
            "atexit": "import atexit; atexit.register(lambda: (client.array('a'), client.close()))",
        }
        for name, ending in endings.items():
            with self.subTest(name=name):
                done = run_python(f"client = refract.connect(sys.argv[1])\n{ending}\n", self.node.socket)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_calls_of_each_kind_leave_memory_and_descriptors_flat(self):
        tcp = refract.connect(self.tcp)
        a, room = numpy.zeros(3_000), bytearray(30_000)

        def some(client, turns):
            for _ in range(turns):
                client.put_array("a", a)
                client.put_array("small", [1, 2])
                client.array("a")[5:], client.array("small"), client.view("a"), client.view("small", None)
                with client.view("a") as view:
                    memoryview(view)[1:]
                with client.build("b", 2_000) as b:
                    b[:5] = 1
                with client.reserve(5_000) as r:
                    client.put("c", r)
                client.get_into("a", room), client.get_many_into(["a", "none"], [room, room])
                client.prefix_exists(["a", "b", "none"])
                for fails in (lambda: client.get_into("a", bytearray(5)), lambda: client.array("c"),
                              lambda: client.array("none"), lambda: client.get_into("a", b""),
                              lambda: client.put_array("a", [None]), lambda: client.build("a", -1)):
                    self.assertRaises((refract.Error, TypeError), fails)

        for client in (self.client, tcp):
            some(client, CALLS // 3)
            gc.collect()
            before, files, blocks = resident_kib(), len(os.listdir("/proc/self/fd")), sys.getallocatedblocks()
            some(client, CALLS)
            gc.collect()
            # The address sanitizer keeps what is freed for a while.
            self.assertLess(resident_kib() - before, 300_000 if Package.preload else 4096)
            self.assertLess(sys.getallocatedblocks() - blocks, 200)
            self.assertEqual(len(os.listdir("/proc/self/fd")), files)


if __name__ == "__main__":
    unittest.main()
