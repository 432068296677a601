#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operating a node that keeps its data: snapshots on demand, what stat and top say, what a stop says, the
doctor on its folder.

Usage: data_test.py REFRACTD REFRACT [unittest arguments]
"""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from node import PATIENCE_S, Node, Programs, clean_environment, run_client  # noqa: E402

SMALL = ("--memory-initial", "32MiB", "--memory-limit", "64MiB")


def kill_everything(node):
    """The keeper first: it would bring the server's last changes to the disk."""
    server = node.server()
    node.process.kill()
    node.process.wait()
    try:
        os.kill(server, signal.SIGKILL)
    except ProcessLookupError:
        pass


def eventually(look, what):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"never happened: {what}")


class Folder(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="refract-data-")
        self.addCleanup(made.cleanup)
        self.folder = os.path.join(made.name, "data")

    def node(self, *flags, durability="everysec"):
        node = Node(*SMALL, "--data-durability", durability, "--data-folder", self.folder, *flags)
        self.addCleanup(node.__exit__)
        return node

    def data(self, node):
        return json.loads(node.run("stat", "--json").stdout)["data"]


class Copies(Folder):
    """What a store that routes keys by slot (kv.copies 1) becomes in another folder or store."""

    KEYS = [f"{what}:{{{number}}}" for number in range(20) for what in ("order", "item")]

    def fill(self, node):
        lines = "".join(json.dumps({"key": key, "value": "of " + key}) + "\n" for key in self.KEYS)
        done = node.run("load", "--format", "jsonl", "-", data=lines.encode())
        self.assertEqual(done.returncode, 0, done.stderr)

    def expect_all(self, node):
        for key in (self.KEYS[0], self.KEYS[7], self.KEYS[-1]):
            self.assertEqual(node.run("get", key).stdout.decode(), "of " + key)
        self.assertEqual(sorted(node.run("scan").stdout.decode().split()), sorted(self.KEYS))

    def test_a_snapshot_is_restored_with_them_and_a_dump_is_loaded_with_and_without(self):
        node = self.node("--server-shards", "3", "--kv-copies", "1")
        self.fill(node)
        self.assertEqual(node.run("snapshot").returncode, 0)
        dump = os.path.join(os.path.dirname(self.folder), "all.jsonl")
        self.assertEqual(node.run("dump", "-o", dump).returncode, 0)
        node.__exit__()
        first = self.folder
        self.folder = os.path.join(os.path.dirname(first), "restored")
        done = subprocess.run([Programs.refract, "restore", first, "--to", self.folder], capture_output=True,
                              timeout=PATIENCE_S, check=False, env=clean_environment())
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(b"--server-shards 3 --kv-copies 1\n", done.stdout)
        again = self.node("--server-shards", "3", "--kv-copies", "1")
        self.expect_all(again)
        again.__exit__()
        for copies, shards in (("0", "3"), ("1", "2")):
            with Node(*SMALL, "--server-shards", shards, "--kv-copies", copies) as other:
                self.assertEqual(other.run("load", dump).returncode, 0)
                self.expect_all(other)

    def test_who_looks_at_a_key_from_outside_finds_its_shard(self):
        with tempfile.TemporaryDirectory(prefix="refract-store-") as store:
            with Node(*SMALL, "--server-shards", "3", "--kv-copies", "1", "--memory-backing", "file:" + store,
                      "--listen-address", "127.0.0.1:0") as node:
                self.fill(node)
                for key in self.KEYS[:8]:
                    looked = node.run("inspect", "--key", key)
                    self.assertEqual(looked.returncode, 0, looked)
                    files = node.run("inspect", "--file", store, "--key", key)
                    self.assertEqual(files.returncode, 0, files)
                    self.assertIn(key.encode(), files.stdout)
                    traced = node.run("trace", "get", key)
                    self.assertEqual(traced.returncode, 0, traced)
                    self.assertRegex(traced.stdout.decode(), r"shard \d of 3, by slot \d+ of the key")
                self.assertEqual(node.run("trace", "put", self.KEYS[0], "changed").returncode, 0)
                self.assertEqual(node.run("get", self.KEYS[0]).stdout, b"changed")


class Bank(Folder):
    """Transactions beside the death of all processes: no money is made or lost."""

    def money(self, node):
        dumped = node.run("dump", "--format", "jsonl")
        self.assertEqual(dumped.returncode, 0, dumped.stderr)
        return [int(json.loads(line)["value"]) for line in dumped.stdout.decode().splitlines()]

    def test_its_sum_is_right_behind_a_kill_of_everything(self):
        for durability in ("everysec", "always"):
            self.folder += "-" + durability
            node = self.node(durability=durability)
            bank = subprocess.Popen([Programs.refract, "--socket", node.socket, "bank", "--for", "50s"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    env=clean_environment())
            self.addCleanup(bank.wait)
            self.addCleanup(bank.kill)
            eventually(lambda: len(set(self.money(node))) > 20, "the bank moves money")
            # Before it closes, and takes its accounts away.
            bank.kill()
            kill_everything(node)
            again = self.node(durability=durability)
            accounts = self.money(again)
            self.assertEqual((len(accounts), sum(accounts)), (100, 100 * 1000))
            again.__exit__()

    def test_so_it_is_while_only_the_server_is_killed(self):
        node = self.node()
        bank = subprocess.Popen([Programs.refract, "--socket", node.socket, "bank", "--for", "600ms"],
                                stdout=subprocess.PIPE, env=clean_environment())
        self.addCleanup(bank.stdout.close)
        for _ in range(3):
            time.sleep(0.1)
            node.kill_server()
        self.assertEqual(bank.wait(PATIENCE_S), 0)
        self.assertRegex(bank.stdout.read().decode(), r"counts of 100 accounts: 100000 each time\n")


class Snapshots(Folder):
    def test_one_is_written_now_and_a_node_starts_from_it(self):
        node = self.node("--server-shards", "2")
        for number in range(50):
            self.assertEqual(node.run("put", f"key-{number}", f"value-{number}").returncode, 0)
        done = node.run("snapshot")
        self.assertEqual(done.returncode, 0, done)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertEqual(sum(int(line.split(": ")[1].split(" entr")[0]) for line in lines), 50)
        for line in lines:
            self.assertTrue(os.path.isfile(line.split(": ")[0]), line)
        told = self.data(node)["snapshots"]
        self.assertEqual((told["entries"], told["begun"], told["ended"]), (50, 2, 2))
        kill_everything(node)
        again = self.node("--server-shards", "2")
        self.assertEqual(again.run("get", "key-49").stdout, b"value-49")
        data = self.data(again)
        self.assertEqual((data["recovery"]["source"], data["recovery"]["entries"]), ("disk", 50))
        self.assertEqual(data["snapshots"]["entries"], 50, "one of an earlier server is told of, too")
        again.kill_server()
        eventually(lambda: self.data(again)["recovery"]["source"] == "memory", "the next server")

    def test_what_is_printed_for_programs_is_a_json_object(self):
        node = self.node()
        node.run("put", "key", "value")
        shards = json.loads(node.run("snapshot", "--json").stdout)["shards"]
        self.assertEqual([(one["shard"], one["entries"]) for one in shards], [(0, 1)])
        self.assertEqual(os.path.getsize(shards[0]["file"]), shards[0]["bytes"])
        self.assertGreater(shards[0]["took_ns"], 0)

    def test_a_node_that_keeps_nothing_says_how_to_have_one(self):
        with Node(*SMALL) as node:
            done = node.run("snapshot")
            self.assertEqual(done.returncode, 4, done)
            self.assertIn(b"--data-durability everysec --data-folder", done.stderr)
            self.assertIn(b"refract dump", done.stderr)

    def test_who_asks_while_one_is_written_shares_the_next_with_all_others(self):
        node = self.node("--data-snapshot-rate", "1MiB")
        for number in range(4):
            node.run("put", f"large-{number}", "-", data=os.urandom(1 << 20))
        asked = [json.loads(node.run("snapshot", "--no-wait", "--json").stdout)["shards"][0]["attempt"]
                 for _ in range(5)]
        # Four seconds' worth of writing: the first one continues meanwhile, unless this machine slept.
        status = self.data(node)["snapshots"]
        if status["ended"] == 0:
            self.assertEqual(asked, [1, 2, 2, 2, 2])
        self.assertLessEqual(status["begun"] - status["ended"], 1, "one at a time")
        self.assertLessEqual(asked[-1], status["ended"] + 2)

    def test_who_waits_is_told_when_the_server_is_started_anew(self):
        node = self.node("--data-snapshot-rate", "1MiB")
        for number in range(12):
            node.run("put", f"large-{number}", "-", data=os.urandom(1 << 20))
        with subprocess.Popen([Programs.refract, "snapshot", "--socket", node.socket], stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, env=clean_environment()) as waiting:
            eventually(lambda: self.data(node)["snapshots"]["begun"] == 1, "the snapshot begins")
            node.kill_server()
            said = waiting.communicate(timeout=PATIENCE_S)[1].decode()
        self.assertEqual(waiting.returncode, 3, said)
        self.assertIn("ask again", said)
        self.assertEqual(glob.glob(self.folder + "/snapshot-*[0-9]"), [], "half a snapshot has no name")

    def test_one_that_fails_says_why_and_the_state_goes_on_saying_it(self):
        node = self.node()
        node.run("put", "key", "value")
        # Nothing can be made in a folder that is gone.
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))
        os.rmdir(self.folder)
        done = node.run("snapshot")
        self.assertEqual(done.returncode, 4, done)
        self.assertIn(self.folder.encode(), done.stderr)
        # Each asking is an attempt of its own.
        self.assertEqual(node.run("snapshot").returncode, 4)
        self.assertEqual(self.data(node)["snapshots"]["failed_attempt"], 2)
        self.assertIn(b"FAILED", node.run("stat").stdout)
        self.assertIn(b"snapshot FAILED", node.run("top", "--once", "--interval", "10ms").stdout)
        self.assertEqual(node.run("get", "key").stdout, b"value")


class Words(Folder):
    def test_the_banner_and_stat_of_a_node_that_keeps_nothing_say_what_is_lost(self):
        with Node(*SMALL) as node:
            self.assertIn(b"a crash of the host loses everything", node.run("stat").stdout)
        self.assertIn("data     in memory only: lost when", node.banner)

    def test_stat_says_where_the_data_are_and_how_far_the_log_is(self):
        node = self.node(durability="always")
        node.run("put", "key", "value")
        said = node.run("stat").stdout.decode()
        self.assertIn(f"data         always, in {self.folder}", said)
        self.assertRegex(said, r"log +all of it on the disk, \d+ syncs?, the last .+ ago")
        self.assertIn("snapshot     none yet", said)
        self.assertGreater(self.data(node)["log"]["since_snapshot_bytes"], 64)
        self.assertIn(f"data     in {self.folder}", node.banner)

    def test_a_stop_says_that_the_data_stay_only_where_they_do(self):
        node = self.node()
        node.run("put", "key", "value")
        node.process.send_signal(signal.SIGTERM)
        said = node.process.communicate(timeout=PATIENCE_S)[0].decode()
        self.assertEqual(node.process.returncode, 0)
        self.assertIn(f"The data stay in {self.folder}", said)
        again = self.node()
        # What cannot be written there any more cannot stay there.
        os.rename(self.folder, self.folder + ".away")
        for name in os.listdir(self.folder + ".away"):
            os.remove(os.path.join(self.folder + ".away", name))
        os.rmdir(self.folder + ".away")
        again.process.send_signal(signal.SIGTERM)
        said = again.process.communicate(timeout=PATIENCE_S)[0].decode()
        self.assertEqual(again.process.returncode, 1)
        self.assertIn(f"NOT all of the data are in {self.folder}", said)
        self.assertNotIn("The data stay in", said)

    def test_a_node_without_a_log_names_the_data_that_it_does_not_read(self):
        self.node().__exit__()
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen([Programs.refractd, "--socket-path", self.folder + "/n.sock", *SMALL,
                                        "--data-folder", self.folder],
                                       stdout=subprocess.PIPE, stderr=errors, env=clean_environment())
            process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)
            errors.seek(0)
            self.assertIn(f"what {self.folder} has of an earlier node is not read and not written",
                          errors.read().decode())


class MemoryInFiles(Folder):
    def test_after_everything_was_killed_it_goes_on_and_the_check_finds_nothing(self):
        os.mkdir(self.folder)
        flags = (*SMALL, "--memory-backing", "file:" + self.folder)
        node = Node(*flags)
        self.addCleanup(node.__exit__)
        for number in range(30):
            node.run("put", f"key-{number}", "-", data=os.urandom(1 << 14))
        stored = node.run("get", "key-7").stdout
        kill_everything(node)
        found = run_client("check", "--path", self.folder)
        self.assertEqual(found.returncode, 0, found)
        with Node(*flags) as again:
            self.assertEqual(again.run("get", "key-7").stdout, stored)
            self.assertEqual(again.run("check").returncode, 0)
            self.assertIn("outlives every process; a crash of the host loses everything",
                          again.run("stat").stdout.decode())


class DefaultFolder(unittest.TestCase):
    def start_and_stop(self, home, *flags):
        process = subprocess.Popen(
            [Programs.refractd, "--socket-path", home + "/n.sock", *SMALL, "--data-durability", "everysec",
             *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**clean_environment(), "XDG_STATE_HOME": home + "/one/two"})
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=PATIENCE_S)[1].decode()
        return line, process.returncode, errors

    def test_its_parents_are_made_for_their_user_alone(self):
        with tempfile.TemporaryDirectory() as home:
            line, code, errors = self.start_and_stop(home)
            self.assertEqual((line, code), (b"Refract is ready.\n", 0), errors)
            for folder in ("one", "one/two", "one/two/refract"):
                self.assertEqual(os.stat(os.path.join(home, folder)).st_mode & 0o777, 0o700, folder)

    def test_of_one_that_was_named_the_missing_parent_is_named(self):
        with tempfile.TemporaryDirectory() as home:
            line, code, errors = self.start_and_stop(home, "--data-folder", home + "/disk/refract")
            self.assertEqual((line, code), (b"", 1), errors)
            self.assertIn(f"there is no {home}/disk", errors)
            self.assertFalse(os.path.exists(home + "/disk"), "a disk that is not mounted is not replaced")


class Doctor(Folder):
    def findings(self, *flags):
        done = run_client("doctor", "--json", "--memory-limit", "64MiB", *flags)
        return {one["name"]: one for one in json.loads(done.stdout)["findings"]}

    def test_it_looks_at_the_folder_and_measures_how_long_a_sync_takes(self):
        flags = ("--data-durability", "always", "--data-folder", self.folder)
        found = self.findings(*flags)
        self.assertEqual(found["data folder"]["health"], "ok", found["data folder"])
        self.assertIn("is made when a node starts", found["data folder"]["found"])
        self.assertFalse(os.path.exists(self.folder), "the doctor makes nothing")
        node = self.node(durability="always")
        self.assertIn("in use by a node that runs", self.findings(*flags)["data folder"]["found"])
        node.__exit__()
        before = sorted(os.listdir(self.folder))
        found = self.findings(*flags)
        self.assertNotIn("in use", found["data folder"]["found"])
        self.assertIn("has a store", found["data folder"]["found"])
        self.assertGreater(found["data sync"]["figures"]["sync_ns_p50"], 0)
        self.assertEqual(sorted(os.listdir(self.folder)), before, "and leaves nothing behind")
        self.assertNotIn("data sync", self.findings(*flags, "--no-self-test"))

    def test_a_folder_whose_parent_is_missing_fails_with_the_command_that_mends_it(self):
        found = self.findings("--data-durability", "everysec", "--data-folder", self.folder + "/deeper/still",
                              "--no-self-test")["data folder"]
        self.assertEqual(found["health"], "fail", found)
        self.assertEqual(found["mend"], f"mkdir -m 700 -p {self.folder}/deeper/still")


if __name__ == "__main__":
    Programs.refractd, Programs.refract = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
