# SPDX-License-Identifier: Apache-2.0
"""The state of the small world of directory_model.py.

Sets of members or births are numbers: bit n for member n, bit b for birth b.
"""
MEMBERS = (0, 1, 2)
ALL = 7
CLOSED, HELLO, REPORTED, ENDED = range(4)  # A stream: hello is sent; the last page is; it is answered.
FIRST, SECOND = 1, 2  # Births. The first may be deleted.


# What the home's process knows by itself: who has ended a report, each member's stream and memory, what each
# has, makes (birth, 4 more where it is from before a hello), may be about to have (`fresh`: so said in a
# report that is under way); who may have what the home does not know; who acknowledged the tombstone, who
# forgot it.
class Directory:
    __slots__ = ("heard", "stream", "ident", "holder", "claim", "coming", "fresh", "unsure", "acks", "forgot")

    def __init__(self, frozen=None, home=None):
        if frozen:
            self.heard, stream, ident, holder, claim = frozen[:5]
            self.coming, self.fresh, self.unsure, self.acks, self.forgot = frozen[5:]
            self.stream, self.ident = list(stream), list(ident)
            self.holder, self.claim = list(holder), list(claim)
            return
        self.heard = self.acks = self.forgot = 1 << home
        self.stream, self.ident, self.holder, self.claim = [CLOSED] * 3, [0] * 3, [0] * 3, [0] * 3
        self.stream[home] = ENDED
        self.coming = self.fresh = self.unsure = 0

    def frozen(self):
        return (self.heard, tuple(self.stream), tuple(self.ident), tuple(self.holder), tuple(self.claim),
                self.coming, self.fresh, self.unsure, self.acks, self.forgot)

    def open_streams(self, least=ENDED):
        return sum(1 << n for n in MEMBERS if self.stream[n] >= least)


# Of each member: `version` of its list; in its memory `copy` (birth), `made` (birth of an open creation),
# `tomb`, `ident`; in its process `stream`, `ready` (it has ended a report), `want` (a claim is under way),
# `get`, `passed` (those that it passed its copy to). `cut`: the home has left the stream, which the member
# has not seen. `up` and `down` are the stream's messages, `look` is a look-up or its answer, which travels by
# itself; `homes` are the two homes' directories. Then what may still happen, and what has: births that were
# sealed, whether the first one's delete began, and whether it ended.
class World:
    LISTS = ("version", "copy", "made", "tomb", "ident", "stream", "ready", "want", "get", "passed", "cut",
             "up", "down", "look")
    BUDGETS = ("breaks", "crashes", "losses", "gets", "evictions", "deletes", "changes", "makers")
    FACTS = ("sealed", "deleted", "told")
    __slots__ = LISTS + ("homes",) + BUDGETS + FACTS

    def __init__(self, frozen):
        lists, homes, rest = frozen
        (self.version, self.copy, self.made, self.tomb, self.ident, self.stream, self.ready, self.want,
         self.get, self.passed, self.cut, self.up, self.down, self.look) = map(list, lists)
        (self.breaks, self.crashes, self.losses, self.gets, self.evictions, self.deletes, self.changes,
         self.makers, self.sealed, self.deleted, self.told) = rest
        self.homes = [Directory(home) if home else None for home in homes]

    def frozen(self):
        lists = (self.version, self.copy, self.made, self.tomb, self.ident, self.stream, self.ready,
                 self.want, self.get, self.passed, self.cut, self.up, self.down, self.look)
        rest = (self.breaks, self.crashes, self.losses, self.gets, self.evictions, self.deletes, self.changes,
                self.makers, self.sealed, self.deleted, self.told)
        return tuple(map(tuple, lists)), tuple(home and home.frozen() for home in self.homes), rest
