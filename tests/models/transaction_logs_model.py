#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every schedule by which one transaction passes through the logs of two shards
(docs/design/067-logs-over-shards.md).

It writes one key at its home and one at its part; one later write changes the part's key. Each store of an
owner and each record is a step. Between any two of them the server is killed, or all processes are. Snapshots
begin and end at any moment, logs fail and are mended by snapshots. A word is given out again, a start fills
both memories. With `always` a log confirms what is synced: the host dies, too, and a ring is lost whose
memory is not. With `everysec` a log confirms what is in the ring. It may lose that with the host, or with the
ring, which may halve a transaction, and is not in here.

What only time can tell is left open: a part is decided against at any moment before the word is claimed.

Not in here: readers, several keys of one part, the walk of a snapshot from key to key, segments of logs, what
a start does on a full disk.

What must hold:
- whole: when all that is left open is settled, both keys have the transaction, or none has.
- kept: what was told to have happened is there, and what was told to have not is not; a later write that was
  acknowledged is there.
- settles: from each state one is reached in which no key is held, each log works, and the client has its
  answer. No state is without a step but failures in which that is not so.

Two transactions whose homes and parts are each other's shards are a small world of their own, in which both
logs have failed.

Without arguments: that holds in all states of the small worlds, and each broken rule of MUTATIONS is found.
--large: larger worlds. --trace NAME: the shortest schedule in which that broken rule does harm.
"""
import sys

from schedules import Runs
from transaction_logs_rules import model
from transaction_logs_worlds import LARGE, MUTATIONS, WORLDS

if __name__ == "__main__":
    sys.exit(Runs(model, WORLDS, LARGE, MUTATIONS, True).main())
