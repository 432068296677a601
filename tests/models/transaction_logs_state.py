# SPDX-License-Identifier: Apache-2.0
"""The state of the small world of transaction_logs_model.py, and how its shards and logs change.

One transaction writes one key at its home and one at its part. One later write changes the part's key.
"""
from typing import NamedTuple

# The server's process. KILLED: the memory is there; LOST: it is not, all processes or the host have died.
RUNS, KILLED, LOST, FILLS = "runs", "killed", "lost", "fills"

# The word. GIVEN: it has been given out again; FRESH: it is one of a new memory.
UNDECIDED, CLAIMED, UNCONFIRMED, COMMITTED, NEVER, GIVEN, FRESH = (
    "undecided", "claimed", "unconfirmed", "committed", "never", "given", "fresh")

# A key. LATER and LATER_NEW: the later write stands over OLD, over NEW.
OLD, PENDING, NEW, LATER, LATER_NEW, UNKNOWN = "old", "pending", "new", "later", "later over new", "unknown"

# Records of a log. The later write's record is the value that it leaves.
PREPARED, DECIDED, HAPPENED, NOT_HAPPENED = "prepared", "decided", "settled: happened", "settled: never"
WRITES = (LATER, LATER_NEW)

# What the client knows: first how far it is, then what it was told of the transaction.
IDLE, ASKS, MAY_DECIDE, DECIDES, TOLD_YES, TOLD_NO, NOT_TOLD = (
    "idle", "asks to prepare", "may decide", "has asked to decide", "was told yes", "was told no",
    "was not told")


# `position`: how many records of the log it stands for; `listed`: it names the transaction, as one that has
# happened (home) or is prepared (part).
class Snapshot(NamedTuple):
    position: int = 0
    value: str = OLD
    listed: bool = False


# `turn`: where its owner is in a turn or in a fill; `recovered`: it has settled what it found at its start,
# and its log has confirmed that. Its log: `records` in the ring or in files, of which `synced` outlive the
# host; the last complete snapshot, and the one under way. `held`: how many records it had when this server
# began. A log that has failed takes no records until a snapshot mends it; `ring_lost`: what was not synced
# is gone, too, though the memory is not.
class Shard(NamedTuple):
    value: str = OLD
    turn: str = ""
    recovered: bool = True
    records: tuple = ()
    synced: int = 0
    held: int = 0
    snapshot: Snapshot = Snapshot()
    coming: Snapshot | None = None
    failed: bool = False
    ring_lost: bool = False

    def plus(self, record, **changes):
        return self._replace(records=(*self.records, record), **changes)

    def is_synced(self):
        return self.synced == len(self.records)

    def has(self, *records):
        return any(record in records for record in self.records)

    # Behind the last of these records.
    def end_of(self, *records):
        return max(i for i, record in enumerate(self.records) if record in records) + 1

    # What a fill reads: the snapshot, then what stands behind it.
    def replayed(self):
        return self.records[self.snapshot.position:]


# `counted`: the part counts on the word; `settled_at`: where its "settled" ends that is to be confirmed;
# `unrecorded`: it was settled without a record (broken rules alone). Then what may still happen.
class State(NamedTuple):
    server: str = RUNS
    word: str = UNDECIDED
    home: Shard = Shard()
    part: Shard = Shard()
    counted: bool = False
    settled_at: int = 0
    unrecorded: bool = False
    client: str = IDLE
    later: str = "to come"  # Then "under way", "acknowledged" or "unknown".
    kills: int = 0
    home_snapshots: int = 0
    part_snapshots: int = 0
    failures: int = 0

    def at_home(self, **changes):
        return self._replace(home=self.home._replace(**changes))

    def at_part(self, **changes):
        return self._replace(part=self.part._replace(**changes))

    def at(self, name, **changes):
        return self.at_home(**changes) if name == "home" else self.at_part(**changes)

    def has_recovered(self):
        return self.home.recovered and self.part.recovered


# The process ends: owners, counters, sessions and snapshots under way. A client that has not asked to decide
# is told no, since its session is gone.
def without_process(s, **changes):
    def stopped(shard):
        return shard._replace(turn="", recovered=False, coming=None)

    client = TOLD_NO if s.client in (ASKS, MAY_DECIDE) else s.client
    later = "unknown" if s.later == "under way" else s.later
    return s._replace(home=stopped(s.home), part=stopped(s.part), counted=False, settled_at=0,
                      unrecorded=False, client=client, later=later, server=KILLED)._replace(**changes)


# All processes end, or the host does. `home` and `part`: how many records their logs keep.
def without_memory(s, home, part):
    def emptied(shard, kept):
        return shard._replace(value=UNKNOWN, records=shard.records[:kept], synced=min(shard.synced, kept),
                              held=0, failed=False, ring_lost=False)

    s = without_process(s, server=LOST, word=FRESH)
    client = NOT_TOLD if s.client == DECIDES else s.client
    return s._replace(home=emptied(s.home, home), part=emptied(s.part, part), client=client)
