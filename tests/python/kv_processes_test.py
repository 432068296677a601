#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract.Client between processes, threads and the end of each: servers that are stopped and killed,
signals, forks. Some 20 s.

Usage: kv_processes_test.py REFRACTD REFRACT FOLDER_OF_THE_PACKAGE [unittest arguments]
"""

import gc
import os
import signal
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from setting import MIB, Node, Package, begin, beside, run_python, until  # noqa: E402

begin()
import refract  # noqa: E402

UNKNOWN = (refract.Indeterminate, refract.Unavailable, refract.DeadlineExceeded)


def resident_kib():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


class KeyProcesses(unittest.TestCase):
    def setUp(self):
        self.node = Node("--memory-limit", "256MiB", "--listen-address", "127.0.0.1:0")
        self.addCleanup(self.node.__exit__)
        self.tcp = f"refract://{self.node.tcp_address}?transport=tcp"
        self.client = refract.connect(self.node.socket)
        self.addCleanup(self.client.close)

    def line_of(self, process):
        return process.stdout.readline().strip()

    def may_put(self):
        """What the server that was killed may have got is in doubt, and says so."""
        try:
            return self.client.put("b", b"2") > 0
        except UNKNOWN:
            return False

    def ended_well(self, done, printed=""):
        self.assertEqual((done.returncode, done.stdout), (0, printed), done.stderr)

    def test_gets_continue_while_the_server_is_stopped_and_killed(self):
        large = os.urandom(5 * MIB)
        self.client.put_many({"a": b"1", "large": large})
        with self.node.stopped_server():
            self.assertEqual((self.client.get("a"), self.client.get("none", None)), (b"1", None))
            self.assertEqual(self.client.get_many(["a", "none", "large"]), [b"1", None, large])
            self.assertEqual(self.client.exists_many(["a", "none"]), [True, False])
            self.assertEqual(self.client.get("large"), large)
            self.assertEqual(set(self.client.scan()), {b"a", b"large"})
            self.assertEqual(refract.connect(self.node.socket).get("a"), b"1")
            self.assertEqual(self.client.transaction(lambda t: t.get("a") * 2, read_only=True), b"11")
        for _ in range(3):
            self.node.kill_server()
            self.assertEqual(self.client.get("a"), b"1")
            until(self.may_put)
            self.assertEqual(self.client.get("b"), b"2")

    def test_a_timeout_of_a_call_is_kept_and_says_what_is_known(self):
        tcp = refract.connect(self.tcp)
        self.client.put("a", b"1")
        tcp.put("a", b"1")
        with self.node.stopped_server():
            begun = time.monotonic()
            for client in (self.client, tcp):
                calls = [(client.put, "b", b""), (client.erase, "a"), (client.add, "n"),
                         (client.cas, "a", b"1", b"2"), (client.put, "c", bytes(5 * MIB))]
                for call in calls:
                    self.assertRaises(refract.Indeterminate, *call, timeout=0.05)
                outcomes = client.put_many({"d": b"", "e": b""}, timeout=0.05)
                self.assertEqual([type(each) for each in outcomes], [refract.Indeterminate] * 2)
                self.assertRaises(refract.DeadlineExceeded, client.ping, timeout=0.05)
            self.assertRaises(refract.DeadlineExceeded, tcp.get, "a", timeout=0.05)
            self.assertEqual([type(each) for each in tcp.get_many(["a", "b"], timeout=0.05)],
                             [refract.DeadlineExceeded] * 2)
            self.assertEqual([type(each) for each in tcp.exists_many(["a", "b"], timeout=0.05)],
                             [refract.DeadlineExceeded] * 2)
            # Those of the client are 5 s each.
            self.assertLess(time.monotonic() - begun, 20)
        for client in (self.client, tcp):
            client.put("again", b"1")
            self.assertEqual(client.get("again"), b"1")

    def test_a_dead_node_is_told_and_a_new_one_is_found(self):
        client = refract.connect(self.node.socket, timeout=0.5)
        client.put("a", b"1")
        server = self.node.server()
        self.node.process.kill()
        self.node.process.wait()
        os.kill(server, signal.SIGKILL)
        self.assertRaises(UNKNOWN, client.put, "b", b"1")
        with self.assertRaises((refract.Unavailable, refract.Indeterminate)) as caught:
            client.put("b", b"1")
        self.assertIn("put of 'b'", str(caught.exception))
        self.assertRaises(refract.Unavailable, refract.connect, self.node.socket, timeout=0.5)
        self.assertRaises(refract.InvalidArgument, refract.connect, "refract://")

    def test_each_call_ends_when_the_server_is_killed_beside_it(self):
        """With an outcome; and what was answered stands."""
        for address in (self.node.socket, self.tcp):
            client, wrong, is_over, done = refract.connect(address), [], threading.Event(), [0]

            def work(client=client, wrong=wrong, is_over=is_over, done=done):
                while not is_over.is_set():
                    number = done[0] + 1
                    try:
                        version = client.put("n", str(number).encode())
                        client.put("large", bytes(300_000))
                        if client.get_versioned("n") != (str(number).encode(), version):
                            wrong.append(number)
                        client.put_many({"x": b"", "y": b""})
                        client.transaction(lambda t: (t.get("x"), t.put("x", b"1"), t.add("z")))
                        client.erase("y", timeout=2)
                    except (*UNKNOWN, refract.NotFound):
                        pass
                    done[0] = number

            thread = threading.Thread(target=work)
            thread.start()
            for _ in range(2):
                before = done[0]
                until(lambda before=before: done[0] > before + 3)
                self.node.kill_server()
            is_over.set()
            thread.join()
            self.assertEqual(wrong, [])

    def test_a_killed_client_leaves_whole_values(self):
        with beside("""
                client = refract.connect(sys.argv[1])
                say("begins")
                for number in range(1_000_000):
                    client.put("a", bytes([number % 256]) * 1_000_000)
                """, self.node.socket) as writer:
            self.assertEqual(self.line_of(writer), "begins")
            until(lambda: self.client.exists("a"))
            writer.kill()
            writer.wait()
        value = self.client.get("a")
        self.assertEqual(value, value[:1] * 1_000_000)
        self.client.put("a", b"after")

    def test_an_interrupt_ends_each_call_that_waits_at_once(self):
        """The server is stopped, so that it would be 60 s."""
        calls = ["client.put('a', b'1')", "client.put('a', bytes(5 << 20))", "client.erase('a')",
                 "client.add('n')", "client.cas('a', b'1', b'2')", "client.ping()",
                 "client.put_many({'a': b'1', 'b': bytes(5 << 20)})",
                 "client.transaction(lambda t: t.put('a', b'1') or t.put('b', b'1'))",
                 "tcp.get('a')", "tcp.exists('a')", "tcp.get_many(['a', 'b'])", "tcp.exists_many(['a', 'b'])",
                 "list(tcp.scan())", "tcp.put('a', bytes(5 << 20))", "tcp.transaction(lambda t: t.get('a'))",
                 "tcp.transaction(lambda t: (t.put('a', b''), t.add('b')))", "tcp.ttl('a')"]
        with beside("""
                import signal, threading
                signal.signal(signal.SIGINT, signal.default_int_handler)
                client, tcp = (refract.connect(address, timeout=60) for address in sys.argv[1:])
                client.put("a", b"1")
                tcp.get("a")
                say("ready")
                for call in iter(sys.stdin.readline, ""):
                    threading.Timer(0.1, say, ["waits"]).start()
                    try:
                        eval(call)
                    except KeyboardInterrupt:
                        say("interrupted")
                sys.stdin.close()
                for one in (client, tcp):
                    say(one.put("last", b"1") > 0, one.get("last"))
                """, self.node.socket, self.tcp) as process:
            self.assertEqual(self.line_of(process), "ready")
            with self.node.stopped_server():
                for call in calls:
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
                self.assertEqual(self.line_of(process), "True b'1'")

    def test_a_handler_of_a_signal_runs_meanwhile_and_is_kept_from_the_client_that_waits(self):
        seen = []

        def handle(*_):
            try:
                self.client.put("inside", b"1")
            except refract.InvalidArgument as error:
                seen.append(str(error))
            seen.append(other.get("a"))

        other = refract.connect(self.node.socket)
        other.put("a", b"1")
        before = signal.signal(signal.SIGALRM, handle)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        with self.node.stopped_server():
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            self.assertRaises(refract.Indeterminate, self.client.put, "b", b"1", timeout=0.5)
        self.assertIn("a handler of a signal", seen[0])
        self.assertEqual(seen[1:], [b"1"])
        os.kill(os.getpid(), signal.SIGALRM)  # Beside no call it may do what it likes.
        until(lambda: len(seen) > 2)
        self.assertEqual(self.client.get("inside"), b"1")

    def test_after_a_fork_the_child_s_handle_says_so_and_it_connects_again(self):
        done = run_python("""
            client = refract.connect(sys.argv[1])
            client.put("a", b"1")
            client.get("a"), client.exists("a")
            scan = client.scan()
            calls = [lambda: client.get("a"), lambda: client.put("a", b""), lambda: client.erase("a"),
                     client.ping,
                     lambda: client.exists("a"), lambda: client.cas("a", b"1", b""), lambda: client.ttl("a"),
                     lambda: client.add("n"), lambda: next(scan),
                     lambda: client.transaction(lambda t: t.get("a")),
                     lambda: client.transaction(lambda t: t.put("a", b"2")), client.route,
                     lambda: client.get_many(["a"])[0], lambda: client.put_many({"a": b""})[0],
                     lambda: client.exists_many(["a"])[0]]
            def in_child():
                for number, call in enumerate(calls):
                    try:
                        said = call()
                        if not isinstance(said, refract.Forked):
                            say("no word of the fork:", number, said)
                    except refract.Forked as error:
                        if "connect()" not in str(error):
                            say(number, error)
                again = refract.connect(sys.argv[1])
                say(again.get("a"), again.add("n"))
                client.close()
                sys.exit(0)
            if os.fork() == 0:
                in_child()
            say(os.wait()[1], client.get("a"), client.add("n"))
            # And out of a transaction.
            def body(t):
                t.get("a")
                if os.fork() == 0:
                    try:
                        t.get("a")
                    except refract.Forked:
                        os._exit(7)
                    os._exit(1)
                return os.wait()[1] >> 8
            say(client.transaction(body))
            """, self.node.socket)
        self.ended_well(done, "b'1' 1\n0 b'1' 2\n7\n")

    def test_children_of_multiprocessing_and_servers_that_fork_connect_for_themselves(self):
        for method in ("fork", "spawn"):
            with self.subTest(method=method):
                done = run_python(f"""
                    import multiprocessing
                    client = refract.connect(sys.argv[1])
                    path = os.path.join(os.path.dirname(sys.argv[1]), "child_of_the_kv_test.py")
                    with open(path, "w") as file:
                        file.write("import refract\\n"
                                   "def begin(address):\\n"
                                   " global client\\n"
                                   " client = refract.connect(address)\\n"
                                   "def count(number):\\n"
                                   " client.add('{method}', number)\\n"
                                   " return client.get('{method}') is not None\\n")
                    sys.path.insert(0, os.path.dirname(path))
                    import child_of_the_kv_test as child
                    context = multiprocessing.get_context("{method}")
                    with context.Pool(2, child.begin, [sys.argv[1]]) as pool:
                        say(all(pool.map(child.count, range(100))), client.get("{method}"))
                    """, self.node.socket)
                self.ended_well(done, "True b'4950'\n")

    def test_threads_call_side_by_side(self):
        for address in (self.node.socket, self.tcp):
            client, wrong = refract.connect(address), []

            def work(number, client=client, wrong=wrong):
                for turn in range(100):
                    key, value = f"{number} {turn}", bytes([number]) * (turn * 997)
                    client.put(key, value)
                    if client.get(key) != value or client.get_many([key, "none"]) != [value, None]:
                        wrong.append(key)
                    client.transaction(lambda t: t.add("sum"))

            threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual((wrong, client.get("sum")), ([], b"800"))
            client.erase("sum")
            client.close()

    def test_a_client_may_be_closed_under_its_calls(self):
        for _ in range(20):
            client = refract.connect(self.node.socket)
            said, begun = [], threading.Barrier(5)

            def work(client=client, said=said, begun=begun):
                begun.wait()
                try:
                    while True:
                        client.put("a", b"1")
                        client.get("a")
                except refract.InvalidArgument as error:
                    said.append(str(error))

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            begun.wait()
            time.sleep(0.005)
            client.close()
            for thread in threads:
                thread.join()
            self.assertTrue(len(said) == 4 and all("closed" in each for each in said))

    def test_a_thread_computes_while_others_wait(self):
        """In each twentieth of a second, or most of them: with the lock held in a call it would stand."""
        tcp = refract.connect(self.tcp)
        with self.node.stopped_server():
            waits = [(self.client.put, "a", b"1"), (self.client.put_many, {"a": b""}), (tcp.get, "a"),
                     (tcp.get_many, ["a"]), (tcp.exists_many, ["a"]), (tcp.put, "a", bytes(MIB))]
            for number, (wait, *given) in enumerate(waits):
                is_over = threading.Event()

                def call(wait=wait, given=given, is_over=is_over):
                    try:
                        wait(*given, timeout=0.5)
                    except UNKNOWN:
                        pass
                    is_over.set()

                threading.Thread(target=call).start()
                begun, slices = time.monotonic(), set()
                while not is_over.is_set():
                    slices.add(int((time.monotonic() - begun) * 20))
                self.assertGreater(len(slices), 5, number)

    def test_a_process_ends_quietly_whatever_is_alive(self):
        endings = {
            "a scan": "scan = client.scan(); next(scan)",
            "a cycle": "held = [client, client.scan()]; held.append(held)",
            "a __del__": """
class Late:
    def __del__(self):
        try:
            client.put('late', b'1')
            client.close()
        except Exception:
            pass
late = Late(); late.itself = late; late.client = client""",
            "daemons": """
import threading
def work(number):
    while True:
        client.put(f'{os.getpid()} {number}', bytes(100_000))
        client.get('a')
        client.get_many(['a'] * 100)
        client.transaction(lambda t: t.add('n'))
for number in range(4): threading.Thread(target=work, args=(number,), daemon=True).start()
time.sleep(0.1)""",
            "atexit": "import atexit; atexit.register(lambda: (client.put('a', b'1'), client.close()))",
        }
        self.client.put("a", bytes(100_000))
        for name, ending in endings.items():
            with self.subTest(name=name):
                done = run_python(f"client = refract.connect(sys.argv[1])\n{ending}\n", self.node.socket)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_buffers_are_held_as_long_as_a_put_takes(self):
        data = bytearray(8 * MIB)
        refused = []

        def resize():
            for _ in range(1000):
                try:
                    data.extend(b"x")
                    del data[-1:]
                except BufferError:
                    refused.append(1)

        thread = threading.Thread(target=resize)
        with self.node.stopped_server():
            putting = threading.Thread(target=self.client.put, args=("a", data))
            putting.start()
            time.sleep(0.1)
            thread.start()
            thread.join()
        putting.join()
        self.assertEqual(len(refused), 1000)
        self.assertEqual(self.client.get("a"), bytes(8 * MIB))

    def test_calls_of_each_kind_leave_memory_and_descriptors_flat(self):
        tcp = refract.connect(self.tcp)

        def some(client, turns):
            for _ in range(turns):
                client.put("a", bytes(100))
                client.put("large", bytes(100_000), ttl=5)
                client.get("a"), client.get("large"), client.get("none", None), client.get_versioned("a")
                client.get_many(["a", "none"]), client.put_many({"a": b"1"}), client.exists_many(["a"])
                client.add("n"), client.exists("a"), client.cas("a", b"1", b"2"), client.ttl("large")
                list(client.scan())
                client.transaction(lambda t: (t.get("a"), t.put("a", bytes(100)), t.add("n")))
                client.route(), client.ping()
                for fails in (lambda: client.get("none"), lambda: client.put("", b""), lambda: client.get(5),
                              lambda: client.put("a", b"", if_absent=True), lambda: client.transaction(len)):
                    self.assertRaises((refract.Error, TypeError), fails)
                client.erase("large")

        for client in (self.client, tcp):
            some(client, 150)
            gc.collect()
            before, files, blocks = resident_kib(), len(os.listdir("/proc/self/fd")), sys.getallocatedblocks()
            some(client, 300)
            gc.collect()
            # The address sanitizer keeps what is freed for a while.
            self.assertLess(resident_kib() - before, 300_000 if Package.preload else 2048)
            self.assertLess(sys.getallocatedblocks() - blocks, 200)
            self.assertEqual(len(os.listdir("/proc/self/fd")), files)

    def test_a_socket_without_a_node_is_told_with_what_to_do(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            place = f"refract://127.0.0.1:{other.getsockname()[1]}"
            with self.assertRaises(ConnectionError) as caught:
                refract.connect(place, timeout=0.3)
        self.assertIsInstance(caught.exception, refract.Unavailable)
        self.assertGreater(len(str(caught.exception).splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
