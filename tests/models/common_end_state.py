# SPDX-License-Identifier: Apache-2.0
"""The state of the small worlds of common_end_model.py: some shards with their logs."""
from typing import NamedTuple

# Kinds of records. A put is acknowledged when it is appended.
PUT, PREPARED, DECIDED, HAPPENED, NEVER = "put", "prepared", "decided", "settled: happened", "settled: never"

# The words in memory. OVER: it is never decided.
OPEN, COMMITTED, OVER = "open", "committed", "over"

# How far a shard is in a start.
READS, FOUND, CUT, SETTLED = "reads", "knows its end", "has cut its log", "has settled"

# What no ring can stand for.
JUMP = 100


# `at`: its position; `order`: among all records of all logs, by time; `needs`: shards, each with a position
# of its log, and up to where that was synced; `seen`: of a decided one, the order of each log's last record
# that may have been acknowledged when its turn began.
class Record(NamedTuple):
    at: int
    kind: str
    name: int
    order: int
    needs: tuple = ()
    seen: tuple = ()


# Stands for the first `count` records, up to position `at`; `listed`: transactions that this home has decided
# and a part may ask for. While it is under way: `waits`, what it needs of the other logs on the disk.
class Snapshot(NamedTuple):
    count: int = 0
    at: int = 0
    listed: tuple = ()
    waits: tuple = ()


# `records`: in the order of the log, those that a snapshot stands for, too; `synced`: how many outlive the
# host; `stand`: behind the last one. `gaps`: of segments that begin behind a crash: where the log ended,
# where it begins, and whether its files have more that does not count. `torn`: where its files end, if the
# snapshot has more; else 0. `failed`: the order of what came next when its log failed, plus 1; else 0.
# `turn`: what its owner is at: what, of which transaction, the stands that it has read, what was to be seen
# then. `stage`: of a start. `is_open`: the server has opened its log; `has_ring`: what is not synced was not
# lost with a server.
class Shard(NamedTuple):
    records: tuple = ()
    synced: int = 0
    stand: int = 1
    gaps: tuple = ()
    snapshot: Snapshot = Snapshot()
    coming: Snapshot | None = None
    torn: int = 0
    failed: int = 0
    turn: tuple = ()
    stage: str = ""
    is_open: bool = True
    has_ring: bool = True

    def has(self, name, *kinds):
        return any(record.name == name and record.kind in kinds for record in self.records)

    def has_synced(self, name, kind):
        return any(record.name == name and record.kind == kind for record in self.records[:self.synced])

    # What is prepared here and not settled.
    def holds(self, name):
        return self.has(name, PREPARED) and not self.has(name, HAPPENED, NEVER)

    def plus(self, kind, name, order, needs=(), seen=()):
        record = Record(self.stand, kind, name, order, needs, seen)
        return self._replace(records=(*self.records, record), stand=self.stand + 1)

    # The position before which all is synced.
    def synced_up_to(self):
        return self.records[self.synced].at if self.synced < len(self.records) else self.stand

    # What is left if its files keep so many records; `is_durable`: of the host's death.
    def without_memory(self, kept, is_durable):
        count = max(kept, self.snapshot.count)
        records = self.records[:count]
        last = records[-1].at + 1 if count > self.snapshot.count else 1
        first = self.gaps[-1][1] if self.gaps else 1
        torn = self.records[kept].at if kept < count else 0
        return self._replace(
            records=records, synced=count if is_durable else min(self.synced, count),
            coming=None, failed=0, has_ring=True,
            stand=max(last, first, self.snapshot.at), torn=torn or self.torn, turn=(), stage=READS)

    # Behind all that a lost ring may have stood for.
    def jump(self):
        return (self.stand // JUMP + 1) * JUMP

    # Durable: what was read, and a segment that begins behind the cut.
    def cut(self, count, first):
        is_cut = count < len(self.records)
        end = self.records[count].at if is_cut else self.stand
        return self._replace(records=self.records[:count], synced=count, stand=first, torn=0,
                             gaps=(*self.gaps, (self.torn or end, first, is_cut)))


# `ends`: how many records of each log count, where a start has found that; `expected`: the orders of records
# that no death may take; `always`: the order of what was appended first with `always`, plus 1; 0: it is
# `everysec`. `may_*`, `*kills`, `failures`: what may still happen, in each shard or at all.
class State(NamedTuple):
    shards: tuple
    words: tuple
    may_put: tuple
    may_snap: tuple
    kills: int
    server_kills: int = 0
    failures: int = 0
    fills: bool = False
    ends: tuple = ()
    order: int = 0
    always: int = 0
    expected: frozenset = frozenset()

    def at(self, i, shard):
        return self._replace(shards=(*self.shards[:i], shard, *self.shards[i + 1:]))

    def appended(self, i, shard):
        return self.at(i, shard)._replace(order=self.order + 1)
