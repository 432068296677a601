#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every schedule by which one object comes to some nodes that pass it on (docs/design/061-broadcast.md).

Node 0 has the object; others are told to get it, each with its forebears: those from which it is to pull,
the nearest first. A node that pulls gives its children what it has from the beginning up to its first gap.
Orders come late. Pulls fail and begin again in room that another object has had meanwhile; nodes are killed,
stopped, full, evict what they have; servers begin again; the object is deleted; gets pull without a plan.

What only time can tell is left open: a node leaves one that is away or does not have it at any later moment,
and one from which nothing comes. No other patience is needed to come to an end.

What must hold:
- bytes: what is sealed has the object's bytes, and none of another one that had the room.
- deleted: no node seals it behind its own word that it has dropped it.
- served: a node without trouble of its own gets it as long as the root is there.
- settles: from each state one is reached in which nothing is under way, and each order has its answer.

Without arguments: that holds in all states of the small worlds, and each broken rule of MUTATIONS is found.
--large: larger worlds. --trace NAME: the shortest schedule in which that broken rule does harm.
"""
import sys

from broadcast_rules import Model
from broadcast_worlds import LARGE, MUTATIONS, WORLDS
from schedules import Runs

if __name__ == "__main__":
    sys.exit(Runs(Model, WORLDS, LARGE, MUTATIONS, True).main())
