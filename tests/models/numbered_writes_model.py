#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every schedule by which one session's numbered writes are executed (docs/design/077-numbered-writes.md).

One shard has one key. One client has one or two operations of it under way: an increment, an erase, a put of
an absent key. Another writer, without numbers, puts or erases it; the owner evicts it, for another key or for
the operation's own buffer. Each store of the owner and of its recovery is a step: the session's record, the
log's, the slot, the mark, the split that an insertion begins and that clears the slot. Between any two of
them the server is killed, also in its recovery, or all processes and the host are; a ring is lost whose
memory is not. The connection breaks, and what it had under way may still run until the session is opened
again. A minute passes, and the session is given up. Acknowledgements travel, and are lost, as calls are.

The order of one connection's operations is a small world of its own: three under way at once, of which the
owner refuses some for now, or lets one wait; the door gives one up; the server is killed.

Not in here: readers, batches, several sessions and shards, pieces of a record but its number, the clearing of
a store, snapshots but the one that takes a lost ring's place.

What must hold:
- once: no operation has happened twice, and none behind a younger one of its session.
- true: what the client is told is what has become of it; and what was told outlives what the log promises.
- sound: a function's result is stored over what it was computed on; table and log agree between two turns.
- settles: from each state one is reached in which all is told, and no record is left.

Without arguments: that holds in all states of the small worlds, and each broken rule of MUTATIONS is found.
--large: larger worlds. --trace NAME: the shortest schedule in which that broken rule does harm.
"""
import sys

from numbered_writes_rules import model
from numbered_writes_worlds import LARGE, MUTATIONS, WORLDS
from schedules import Runs

if __name__ == "__main__":
    sys.exit(Runs(model, WORLDS, LARGE, MUTATIONS, True).main())
