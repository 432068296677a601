# SPDX-License-Identifier: Apache-2.0
"""What a person does after damage: the node refuses to start, refract check names it, refract restore
--salvage saves the rest, and a node on the new folder has everything but what was damaged.

    restore_test.py REFRACTD REFRACT
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from node import PATIENCE_S, Node, Programs, clean_environment, run_client  # noqa: E402

KEYS = 200


def value_of(key):
    return f"value {key} ".encode() + b"x" * (key % 50)


class AfterDamage(unittest.TestCase):
    def setUp(self):
        self.made = tempfile.TemporaryDirectory(prefix="refract-restore-")
        self.addCleanup(self.made.cleanup)
        self.data = os.path.join(self.made.name, "data")
        self.saved = os.path.join(self.made.name, "saved")

    def flags(self, folder):
        return ["--data-durability", "always", "--data-folder", folder, "--memory-limit", "128MiB",
                "--server-shards", "2"]

    def fill(self):
        lines = "".join(json.dumps({"key": f"key-{key}", "value": value_of(key).decode()}) + "\n"
                        for key in range(KEYS))
        with Node(*self.flags(self.data)) as node:
            done = node.run("load", "--format", "jsonl", "-", data=lines.encode())
            self.assertEqual(done.returncode, 0, done.stderr)

    def contents(self):
        found = {}
        for name in os.listdir(self.data):
            with open(os.path.join(self.data, name), "rb") as file:
                found[name] = file.read()
        return found

    def flip(self, path, offset):
        with open(path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 0x10]))

    def refused_start(self, folder):
        with tempfile.TemporaryDirectory(prefix="refract-") as place:
            done = subprocess.run([Programs.refractd, "--socket-path", os.path.join(place, "s"),
                                   *self.flags(folder)], capture_output=True, timeout=PATIENCE_S, check=False,
                                  env=clean_environment())
        self.assertNotEqual(done.returncode, 0)
        return done.stderr.decode()

    def values(self, node):
        done = node.run("dump", "--no-progress")
        self.assertEqual(done.returncode, 0, done.stderr)
        records = [json.loads(line) for line in done.stdout.splitlines()]
        return {int(each["key"].removeprefix("key-")): each["value"].encode() for each in records}

    def test_a_damaged_folder_is_refused_checked_salvaged_and_served(self):
        self.fill()
        sound = run_client("check", self.data)
        self.assertEqual(sound.returncode, 0, sound.stdout + sound.stderr)
        self.assertIn(b"no damage; a start would serve the store", sound.stdout)
        # A byte of the first record's value in each of the two logs that have some.
        logs = sorted(glob.glob(os.path.join(self.data, "log-*")))
        self.assertEqual(len(logs), 2)
        for log in logs:
            self.flip(log, 512 + 64 + 3)
        said = self.refused_start(self.data)
        # Whichever shard says so first.
        self.assertTrue(any(f"{log}: " in said for log in logs), said)
        self.assertIn("at offset 512", said)
        self.assertIn(f"refract restore --salvage {self.data}", said)
        before = self.contents()

        check = run_client("check", self.data)
        self.assertEqual(check.returncode, 1)
        for log in logs:
            self.assertIn(f"damage in {log}: ".encode(), check.stdout)
        self.assertIn(b"lost: 1 change, with version 1", check.stdout)
        self.assertIn(b"a start would serve nothing", check.stdout)
        told = json.loads(run_client("check", "--json", self.data).stdout)
        self.assertEqual([told["healthy"], told["damage_count"]], [False, 2])
        alone = run_client("check", logs[0])
        self.assertEqual(alone.returncode, 1)
        self.assertIn(b"at offset 512", alone.stdout)

        refused = run_client("restore", self.data, "--to", self.saved)
        self.assertEqual(refused.returncode, 4)
        self.assertFalse(os.path.exists(self.saved))
        done = run_client("restore", "--salvage", self.data, "--to", self.saved)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.count(b"left out: "), 2)
        self.assertIn(f"restored {KEYS - 2} entries".encode(), done.stdout)
        self.assertEqual(before, self.contents(), "the damaged folder was touched")
        again = run_client("restore", "--salvage", self.data, "--to", self.saved)
        self.assertEqual(again.returncode, 1)
        self.assertIn(b"is there already", again.stderr)

        with Node(*self.flags(self.saved)) as node:
            found = self.values(node)
            self.assertEqual(len(found), KEYS - 2)
            for key, value in found.items():
                self.assertEqual(value, value_of(key))
            put = node.run("put", "-v", "key-0", "new")
            self.assertEqual(put.returncode, 0, put.stderr)
            in_use = run_client("check", self.saved)
            self.assertEqual(in_use.returncode, 0, in_use.stdout)
            self.assertIn(b"a node has the folder", in_use.stdout)
            taken = run_client("restore", self.saved, "--to", self.saved + "-2")
            self.assertEqual(taken.returncode, 4)
            self.assertIn(b"another process uses the folder", taken.stderr)
        after = run_client("check", self.saved)
        self.assertEqual(after.returncode, 0, after.stdout)

    def test_snapshots_that_were_taken_home_make_a_node(self):
        self.fill()
        # What a start leaves when it begins from a salvaged folder: snapshots, one a shard.
        self.assertEqual(run_client("restore", self.data, "--to", self.saved).returncode, 0)
        home = os.path.join(self.made.name, "home")
        os.mkdir(home)
        for path in glob.glob(os.path.join(self.saved, "snapshot-*")):
            shutil.copy(path, home)
        files = sorted(glob.glob(os.path.join(home, "*")))
        fresh = os.path.join(self.made.name, "fresh")
        missing = run_client("restore", files[0], "--to", fresh)
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn(b"2 shards, and these are snapshots of 1", missing.stderr)
        self.assertEqual(run_client("check", files[0]).returncode, 0)
        done = run_client("restore", *files, "--to", fresh)
        self.assertEqual(done.returncode, 0, done.stderr)
        with Node(*self.flags(fresh)) as node:
            self.assertEqual(self.values(node), {key: value_of(key) for key in range(KEYS)})


if __name__ == "__main__":
    Programs.refractd, Programs.refract = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
