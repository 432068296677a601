#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every schedule by which small logs of two or three shards lose their ends with the host, and end together
(docs/design/068-common-end.md).

Each record, each sync of one, each load of another log's stand and each step of a start is a step. Between
any two of them the host dies, and each log keeps any beginning that is not shorter than what was synced; or
the server is killed, with or without a ring that is lost; or all processes are, and what the kernel had not
written goes with a second death. Snapshots begin and are published at any moment, logs fail or have no room,
a word is used again.

Not in here: what page 067 has (words that are claimed, large values, the turns of a client), the files of
segments, keys that transactions hold against each other, what a snapshot gives up when it has waited long.
Two snapshots that mend two failed logs are published at one moment.

What must hold behind each start:
- whole: each transaction is in all its shards, or in none.
- behind: of one that is there, all is there that was acknowledged in any shard before it was decided. With
  `always`, all that was acknowledged.
- bounded: what had been appended before the first record that the death took is there. Where a log has failed
  or had no room, also what others have acknowledged since.
- no alarm: no crash is taken for files that are missing.
And before: from each state one is reached in which no key is held, each log works, and no snapshot waits.

Without arguments: that holds in all states of the small worlds, and each broken rule of MUTATIONS is found.
--large: larger worlds. --trace NAME: the shortest schedule in which that broken rule does harm.
"""
import sys

from common_end_rules import Model, Transaction
from common_end_state import OPEN, Shard, State
from schedules import Runs


def world_of(names, puts, snapshots=None, kills=1, server_kills=0, failures=0, **rules):
    shards = len(puts)
    start = State(shards=(Shard(),) * shards, words=(OPEN,) * len(names), may_put=puts,
                  may_snap=snapshots or (0,) * shards, kills=kills, server_kills=server_kills,
                  failures=failures)
    return {"names": names, "syncs": bool(snapshots or failures), **rules}, start


# The home of the one is a part of the other; two that use one word.
ONE = (Transaction(0, (1,), 0),)
CROSSED = (Transaction(0, (1,), 0), Transaction(1, (0,), 1))
AGAIN = (Transaction(0, (1,), 0), Transaction(0, (1,), 0))
ALONE = (Transaction(0, (1,), 0), Transaction(1, (), 1))
OF_THREE = (Transaction(1, (2,), 0),)

WORLDS = {
    "two that cross": world_of(CROSSED, (1, 0), aborts=True),
    "two that cross, a snapshot": world_of(CROSSED, (0, 0), (1, 0)),
    "a word is used again, snapshots": world_of(AGAIN, (0, 0), (1, 1)),
    "a word is used again, three shards": world_of(
        (Transaction(0, (1, 2), 0), Transaction(0, (1,), 0)), (0, 0, 0)),
    "a put at the home, snapshots": world_of(ONE, (1, 0), (1, 1)),
    "a put at the part, snapshots": world_of(ONE, (0, 1), (1, 1)),
    "stands are read slowly, snapshots": world_of(ONE, (0, 0), (1, 1), reads_slowly=True),
    "three shards": world_of(OF_THREE, (1, 1, 1), reads_slowly=True),
    "three shards, two transactions": world_of(
        (*OF_THREE, Transaction(0, (1,), 1)), (0, 0, 0), reads_slowly=True),
    "three shards, a snapshot": world_of(OF_THREE, (1, 0, 0), (0, 1, 0), reads_slowly=True),
    "two deaths": world_of(ONE, (1, 1), kills=2, dies_with_processes=True),
    "two deaths, two transactions": world_of(CROSSED, (0, 0), kills=2, dies_with_processes=True),
    "two deaths, snapshots": world_of(ONE, (0, 0), (1, 1), kills=2, dies_with_processes=True),
    "two deaths, three shards": world_of(
        (Transaction(0, (), 0), Transaction(1, (), 1)), (0, 0, 1), (0, 0, 0), kills=2, says_synced=True),
    "a log fails": world_of(ALONE, (1, 0), (0, 0), failures=1),
    "a log fails, snapshots": world_of(ONE, (0, 0), (1, 1), failures=1),
    "both logs fail": world_of(ONE, (1, 0), (0, 1), failures=2),
    "a log has no room": world_of(ALONE, (0, 1), (0, 0), failures=1, stalls=True),
    "the server is killed": world_of(
        ONE, (1, 0), (0, 0), server_kills=1, loses_rings=True, says_synced=True),
    "the server is killed, snapshots": world_of(ONE, (0, 0), (1, 1), server_kills=1),
    "the server is killed, then always": world_of(ONE, (1, 1), (0, 0), server_kills=1, then_always=True),
}

LARGE = {
    "two that cross, snapshots": world_of(CROSSED, (0, 0), (1, 1)),
    "two that cross, puts, a snapshot": world_of(CROSSED, (1, 0), (1, 0)),
    "three deaths": world_of(CROSSED, (1, 0), kills=3, dies_with_processes=True),
    "three deaths, snapshots": world_of(ONE, (0, 1), (1, 1), kills=3, dies_with_processes=True),
    "three shards, puts, two transactions": world_of(
        (*OF_THREE, Transaction(0, (1,), 1)), (1, 0, 1), reads_slowly=True),
    "both logs fail, two deaths": world_of(ONE, (1, 0), (0, 1), failures=2, kills=2),
    "the server is killed, two deaths": world_of(
        ONE, (1, 0), (0, 1), server_kills=1, kills=2, loses_rings=True, says_synced=True),
}

# What a broken rule is, and the world in which its harm is found.
MUTATIONS = {
    "decided needs nothing": ("what is decided needs nothing of other logs", "two that cross"),
    "decided needs its parts": ("what is decided needs the logs of its parts alone", "three shards"),
    "decided needs its parts, again": (
        "what is decided needs the logs of its parts alone, and its word is used again",
        "a word is used again, three shards"),
    "settled needs nothing": ("what is settled needs nothing of its home", "two that cross"),
    "one pass": ("logs are cut by the ends that the death has left alone", "three shards"),
    "no meeting": ("a shard appends what it settles before all have cut their logs", "two deaths"),
    "gaps count": ("a log that begins behind a gap has what was lost there", "two deaths"),
    "positions again": ("a log continues where its files end", "two deaths"),
    "positions again, ring": (
        "a log whose ring is lost continues where its files end", "the server is killed"),
    "empty segments stay": ("a second, shorter end is not written where the first is", "two deaths"),
    "cuts are losses": ("what a start has cut counts as missing", "two deaths, three shards"),
    "snapshot at once": ("a snapshot is published before others have synced", "a put at the home, snapshots"),
    "stands before the moment": (
        "a snapshot reads the stands before its moment", "stands are read slowly, snapshots"),
    "no position in snapshots": (
        "a log's end does not count its snapshot", "a put at the home, snapshots"),
    "forgets early": (
        "a home forgets before its parts are settled, and uses the word again",
        "a word is used again, snapshots"),
    "forgets early, snapshot": (
        "a home forgets before its parts are settled", "a put at the home, snapshots"),
    "failed alone": ("other shards take writes while a log has failed", "a log fails"),
    "failed alone, no room": ("other shards take writes while a log has no room", "a log has no room"),
    "failed, puts": (
        "other shards take puts, and no transactions, while a log has no room", "a log has no room"),
    "snapshot beside a failure": (
        "a snapshot is published while another log has failed", "a log fails, snapshots"),
    "snapshots before a failure": (
        "two logs have failed, and a snapshot from before that counts for the other one", "both logs fail"),
    "settled before opened": (
        "a part is settled before its home has said where its log stands", "the server is killed"),
    "always at once": (
        "with always, a part is settled before what everysec has left is synced",
        "the server is killed, then always"),
}

if __name__ == "__main__":
    sys.exit(Runs(Model, WORLDS, LARGE, MUTATIONS, False).main())
