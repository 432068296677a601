#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every schedule by which one transaction passes through two nodes (docs/design/070).

It writes x at its home A and y at its part in B, on condition that z in B stands. A turn of an owner is a
step, and so is each message between the client and the nodes; the stores of a turn are what
transactions_model.py is about. Messages are late or are lost with their session, and a prepare may wait in
B's queue until behind its own settle. Nodes die and start again with their memory, or, where there are logs
(`always`), with what was synced. Other transactions are a part of one in A, whose home is B.

What only time can tell is left open: B demands at any moment, and a client gives up at any moment.

Not in here: snapshots, `everysec`, several keys of one part, times to live, a second transaction of the same
range of numbers, readers beside a host that dies (what is not confirmed is seen, page 025).

What must hold:
- whole: a reader that has found x new finds y new, and the other way round; when all has settled, both are
  there, or none. It happens only while its condition stands.
- kept: what was told to have happened is there, and what was told to have not is not; a put that was
  acknowledged is there.
- reads refuse nothing: without a demand, a fault or a client that gives up, no transaction is refused.
- settles: from each state one is reached in which no key is held, the client has its answer and the word is
  free again.

Without arguments: that holds in all states of the small worlds, and each broken rule of MUTATIONS is found.
--large: larger worlds. --trace NAME: the shortest schedule in which that broken rule does harm.
"""
import sys

from schedules import Runs
from transactions_nodes_rules import Model
from transactions_nodes_state import State

KEPT, ALL = ("a kept", "b kept"), ("a kept", "b kept", "a lost", "b lost")


def world_of(kills=0, breaks=0, other=False, label=True, **rules):
    return rules, State(kills=kills, breaks=breaks, other=other, label=label)


WORLDS = {
    "x, then y": world_of(deaths=KEPT, reads="xy", kills=1, breaks=1),
    "y, then x": world_of(deaths=KEPT, reads="yx", kills=1, breaks=1),
    "nothing fails, x, then y": world_of(reads="xy"),
    "a client lies": world_of(reads="xy", breaks=1, lies="another"),
    "its own client lies": world_of(deaths=KEPT, kills=1, lies="own", splits=True),
    "the name is of an earlier memory": world_of(breaks=1, label=False),
    "a put of y": world_of(deaths=KEPT, puts="y", kills=2, breaks=1),
    "a put of z": world_of(deaths=KEPT, puts="z", kills=2, breaks=1),
    "two parts cross": world_of(deaths=KEPT, kills=2, other=True),
    "logs": world_of(has_logs=True, deaths=ALL, kills=2),
    "logs, a put of y": world_of(has_logs=True, deaths=ALL, puts="y", kills=1, breaks=1),
    "logs, a put of z": world_of(has_logs=True, deaths=ALL, puts="z", kills=1, breaks=1),
    "the part only reads, a put of z": world_of(
        has_logs=True, deaths=ALL, puts="z", kills=2, breaks=1, marks_only=True),
}

LARGE = {
    "x, then y, three deaths": world_of(deaths=KEPT, reads="xy", kills=3, breaks=2),
    "y, then x, three deaths": world_of(deaths=KEPT, reads="yx", kills=3, breaks=2),
    "logs, three deaths, a put of y": world_of(has_logs=True, deaths=ALL, puts="y", kills=3, breaks=2),
    "logs, three deaths, a put of z": world_of(has_logs=True, deaths=ALL, puts="z", kills=3, breaks=2),
    "logs, readers": world_of(has_logs=True, deaths=KEPT, reads="xy", kills=2, breaks=1),
}

# What a broken rule is, and the world in which its harm is found.
MUTATIONS = {
    "forgets early": ("the home forgets before the far part is gone", "a put of y"),
    "forgets as aborted": ("a word that is free again says: this number was aborted", "a put of y"),
    "look records": ("a look decides against what is open", "nothing fails, x, then y"),
    "old look": ("a call is answered by a look that began before it", "x, then y"),
    "undone alone": ("a far part is undone by its owner alone", "x, then y"),
    "any number": ("a later number of the word is taken for this one", "x, then y"),
    "told by any": ("a part believes any session", "a client lies"),
    "marks in the process": ("read marks are lost with the process", "a put of z"),
    "remade without marks": ("a part that comes from the log has no marks", "logs, a put of z"),
    "start settles": ("a start from the log decides what it has no decision of", "logs"),
    "settled unconfirmed": ("a part is settled before the home's log has confirmed", "logs"),
    "fate in the process": (
        "a part that was settled half asks the home again", "its own client lies"),
    "label unchecked": (
        "the home decides by a name with another memory's identity", "the name is of an earlier memory"),
    "lost is refused": ("a client takes a lost answer for a refusal", "x, then y"),
    "asks another memory": ("a home with another memory answers for an outcome", "logs"),
    "decides early": ("the client decides before all is prepared", "x, then y"),
    "gone unconfirmed": ("a part is gone before its log has confirmed that", "logs"),
    "gone at the start": ("a node says gone before it has taken up what is there", "x, then y"),
    "recovered by others": ("a node has recovered when its far parts are settled", "two parts cross"),
}

if __name__ == "__main__":
    sys.exit(Runs(Model, WORLDS, LARGE, MUTATIONS, True).main())
