#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refract chain and refract inspect against real nodes, and what docs/chains.md shows of them.

Usage: chain_test.py REFRACTD REFRACT docs/chains.md [unittest arguments]
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from node import PATIENCE_S, Node, Programs, clean_environment, run_client  # noqa: E402

SMALL = ("--memory-initial", "32MiB", "--memory-limit", "64MiB")
PAGE = ""


class WithNode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = Node(*SMALL)
        cls.addClassCleanup(cls.node.__exit__)
        pairs = "".join(f"key{i}\tvalue {i}\n" for i in range(500))
        cls.node.run("load", "--format", "tsv", "--header", "no", "-", data=pairs.encode())

    def ok(self, *words, data=b""):
        done = self.node.run(*words, data=data)
        self.assertEqual(done.returncode, 0, (words, data, done.stdout, done.stderr))
        return done.stdout.decode()

    def inspect(self, *words):
        return json.loads(self.ok("inspect", "--json", *words))

    def chain(self, text, code=0):
        done = self.node.run("chain", "--json", "-", data=text.encode())
        self.assertEqual(done.returncode, code, (text, done.stdout, done.stderr))
        return json.loads(done.stdout)["operations"]


class Chain(WithNode):
    def test_a_key_is_followed_by_hand_from_its_bucket_to_its_bytes(self):
        self.ok("put", "greeting", "hello, memory")
        way = self.inspect("--key", "greeting")
        # The bucket's own line, or one behind it: with few seeds a bucket has so many keys.
        line_at = way["slot_at"] - way["slot_at"] % 64
        bucket, line, count = self.chain(
            f"read kv+{way['bucket_at']} 64\nread kv+{line_at} 64\nread kv.root+0 8\n")
        self.assertEqual(int.from_bytes(bytes.fromhex(count["hex"]), "little"), way["buckets"])
        self.assertTrue(line_at == way["bucket_at"] or int(bucket["hex"][112:], 16) != 0, (way, bucket))
        slots = [line["hex"][i:i + 16] for i in range(0, 128, 16)]
        word = int(way["slot_word"], 16).to_bytes(8, "little").hex()
        self.assertIn(word, slots, "the bucket holds the slot that inspect names")
        for address in [f"kv+{way['slot_at']} 37 indirect slot", f"kv+{way['buffer_at']} 37"]:
            done = self.chain(f"read {address}")[0]
            self.assertEqual(bytes.fromhex(done["hex"])[16:], b"greetinghello, memory")

    def test_a_value_is_replaced_as_the_table_s_guard_allows_it(self):
        self.ok("put", "greeting", "hello, memory")
        way = self.inspect("--key", "greeting")
        word = int(way["slot_word"], 16)
        own_bits = word & 0xff00_00f0_0000_0000  # fingerprint and size hint
        stamp = self.chain(f"read kv+{way['buffer_at']} 8")[0]["hex"]
        done = self.chain(
            f"cas  kv+{way['buffer_at']} eq compare hex:{stamp} swap 0 swap-mask 0\n"
            f"allocate kv/0 u32:13 u16:8 u16:0 \"greeting\" \"HELLO, CHAINS\" slot template {own_bits}"
            " conditional redirect scratch+0 owned\n"
            f"cas  kv+{way['slot_at']} eq compare {word} swap [scratch+0] conditional retire slot\n"
            f"read kv+{way['slot_at']} 64 indirect slot conditional\n")
        self.assertEqual([one["code"] for one in done], ["ok"] * 4)
        self.assertEqual(self.ok("get", "greeting").strip(), "HELLO, CHAINS")
        # The slot is another now: the same chain changes nothing, and leaves nothing behind.
        done = self.chain(f"cas kv+{way['slot_at']} eq compare {word} swap 0\n"
                          "read scratch+0 8 conditional", 1)
        self.assertEqual([one["code"] for one in done], ["compare_failed", "cancelled"])

    def test_what_the_guard_forbids_changes_nothing(self):
        way = self.inspect("--key", "key7")
        refused = self.node.run("chain", "-", data=f"write kv+{way['buffer_at']} 7".encode())
        self.assertEqual(refused.returncode, 2)
        self.assertIn(b"1:7: the chain needs the right to write in 'kv'", refused.stderr)
        for line in [f"add kv+{way['slot_at']} 1", "add kv.root+0 1",
                     f"cas kv+{way['slot_at']} eq compare {way['slot_word']} swap 0"]:
            self.assertEqual(self.chain(line, 1)[0]["code"], "access_denied", line)
        self.assertEqual(self.ok("get", "key7").strip(), "value 7")
        self.ok("check")

    def test_the_scratch_belongs_to_the_connection(self):
        done = self.chain("write scratch+8 u64:41\nadd scratch+8 1\nread scratch+8 8\n")
        self.assertEqual([one["hex"] for one in done[1:]], ["2900000000000000", "2a00000000000000"])
        self.assertEqual(self.chain("read scratch+8 8")[0]["hex"], "00" * 8)

    def test_people_are_told_the_round_trip(self):
        text = self.ok("chain", "-", data=b"read kv.root+0 8  # buckets\n")
        self.assertRegex(text, r"1  read kv\.root\+0 8\n     ok; 8 of 8 bytes asked for\n     0000  .*\n"
                               r"1 operation in one round trip of \d+(\.\d)? [nu]s over shm\n")

    def test_faults_name_file_line_and_column(self):
        with tempfile.NamedTemporaryFile("w", suffix=".chain") as file:
            file.write("read kv+0 8\nread kv+8 indirect\n")
            file.flush()
            done = self.node.run("chain", file.name)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.decode(),
                         f"refract: {file.name}:2:11: expected a number of bytes, found 'indirect'\n"
                         "  read kv+8 indirect\n            ^\n")
        for words, data, code, said in [
                (("chain", "-"), b"read nowhere+0 8", 2,
                 b"standard input:1:6: the node offers no store 'nowhere'"),
                (("chain", "-"), b"", 2, b"there is no operation in it"),
                (("chain",), b"", 2, b"which file is the chain in?"),
                (("chain", "a", "b"), b"", 2, b"which file"),
                (("chain", "/nowhere/x"), b"", 4, b"cannot open"),
                (("chain", "--shard", "9", "-"), b"read kv+8 8", 2, b"there is no shard 9"),
                (("chain", "--explain", "--dry-run", "-"), b"read kv+8 8", 2, b"two ways")]:
            done = self.node.run(*words, data=data)
            self.assertIn(said, done.stderr, words)
            self.assertEqual(done.returncode, code, words)

    def test_explaining_and_encoding_need_no_node(self):
        nowhere = "/nowhere/node.sock"
        for words in [("--explain",), ("--dry-run",), ("--explain", "--json"), ("--dry-run", "--json")]:
            done = run_client("chain", *words, "-", socket=nowhere, data=b"read kv.root+8 8 indirect slot\n")
            self.assertEqual(done.returncode, 0, done.stderr)
            if "--json" in words:
                json.loads(done.stdout)
        self.assertEqual(run_client("chain", "-", socket=nowhere, data=b"read kv+8 8").returncode, 3)


class Inspect(WithNode):
    def test_a_node_is_summed_up_while_it_serves_and_while_it_is_stopped(self):
        whole = self.inspect()
        self.assertGreaterEqual(whole["entries"], 500)
        self.assertIn("H", self.ok("inspect"))
        with self.node.stopped_server():
            self.assertEqual(self.inspect()["entries"], whole["entries"])

    def test_a_key_a_bucket_and_an_offset_are_found(self):
        way = self.inspect("--key", "key7")
        self.assertIn("'key7': 7 B", self.ok("inspect", "--bucket", str(way["bucket"])))
        self.assertIn("'value 7'", self.ok("inspect", "--at", hex(way["buffer_at"] + 20)))
        self.assertEqual(self.node.run("inspect", "--key", "absent").returncode, 1)

    def test_files_are_read_without_a_node_and_damage_is_shown(self):
        with tempfile.TemporaryDirectory(prefix="refract-store-") as store:
            with Node("--server-shards", "2", "--memory-backing", "file:" + store, *SMALL) as node:
                for i in range(20):
                    node.run("put", f"key{i}", "a value to be found")
            def look(*words):
                return subprocess.run([Programs.refract, "inspect", *words], capture_output=True, check=False,
                                      timeout=PATIENCE_S, env=clean_environment())
            for i in range(20):
                done = look("--file", store, "--key", f"key{i}")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(b"a value to be found", done.stdout)
            region = os.path.join(store, "region-000")
            self.assertEqual(look("--file", region).returncode, 0)
            with open(region, "r+b") as file:
                at = file.read().index(b"a value to be found")
                file.seek(at - 3)
                file.write(b"?")
            shards = [look("--file", store, "--bucket", str(i)) for i in range(16)]
            self.assertTrue(any(done.returncode == 1 and b"DAMAGE at 0x" in done.stdout for done in shards))
            plain = os.path.join(store, "plain")
            with open(plain, "wb") as file:
                file.write(b"no layout at all")
            self.assertIn(b"no layout that is known", look("--file", plain).stderr)
            self.assertIn(b"no layout at all", look("--file", plain, "--at", "0").stdout)
            self.assertEqual(look("--file", plain, "--layout", "nonsense").returncode, 2)
            self.assertEqual(look("--file", plain, "--layout", "table").returncode, 1)
            self.assertEqual(look("--file", store, "--at", "1", "--bucket", "1").returncode, 2)


class Page(unittest.TestCase):
    def test_every_chain_of_the_page_is_one(self):
        with open(PAGE, encoding="utf-8") as file:
            chains = re.findall(r"^```chain\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(chains), 4)
        for text in chains:
            done = run_client("chain", "--explain", "-", data=text.encode())
            self.assertEqual(done.returncode, 0, (text, done.stderr))


if __name__ == "__main__":
    Programs.refractd, Programs.refract, PAGE = (os.path.abspath(path) for path in sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
