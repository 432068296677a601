# SPDX-License-Identifier: Apache-2.0
"""The state of the small world of broadcast_model.py.

An object has two pieces; a set of pieces is a number of two bits.
"""
ABSENT, LOOKED, PULLING, ENDING, SEALED, GONE = range(6)
ALIVE, STOPPED, DEAD = range(3)
NOTHING, GOT_IT, DID_NOT = range(3)
BOTH = 3
OPEN_END = (0, 0, 0)


# Of each node: `st`; the `plan` of its pull, 0: none; the pieces that it believes to `have`, and those of its
# room that are `good`, the others being another object's; which of its sources it has come to (`src`), the
# `link` to it, which is the number of that one's window, and how much it knows to be ready there (`known`);
# `news`, an answer to PROGRESS that is under way: node, window, ready. As a giver: `gen`, the number of its
# last window, and `win`, that of the one which is open. How many `rounds` are left; whether the pull was
# `dropped`; `tomb`, it refuses the birth; `ack`, it has said so; its `life`; `orders`, a set of plans, that
# are still to come; whether one that came is `owed` an answer; `told`, the last answer; `spoiled`: it has had
# trouble of its own. Then what may still happen, and whether the object was `deleted`, and the root has been
# there throughout (`rooted`).
class World:
    LISTS = ("st", "plan", "have", "good", "src", "link", "known", "news", "gen", "win", "rounds", "dropped",
             "tomb", "ack", "life", "orders", "owed", "told", "spoiled")
    BUDGETS = ("kills", "stops", "restarts", "failures", "impatient", "evictions", "shortages", "gets",
               "deletes")
    FACTS = ("deleted", "rooted")
    __slots__ = LISTS + BUDGETS + FACTS

    def __init__(self, frozen):
        lists, rest = frozen
        (self.st, self.plan, self.have, self.good, self.src, self.link, self.known, self.news, self.gen,
         self.win, self.rounds, self.dropped, self.tomb, self.ack, self.life, self.orders, self.owed,
         self.told, self.spoiled) = map(list, lists)
        (self.kills, self.stops, self.restarts, self.failures, self.impatient, self.evictions, self.shortages,
         self.gets, self.deletes, self.deleted, self.rooted) = rest

    def frozen(self):
        lists = (self.st, self.plan, self.have, self.good, self.src, self.link, self.known, self.news,
                 self.gen, self.win, self.rounds, self.dropped, self.tomb, self.ack, self.life, self.orders,
                 self.owed, self.told, self.spoiled)
        rest = (self.kills, self.stops, self.restarts, self.failures, self.impatient, self.evictions,
                self.shortages, self.gets, self.deletes, self.deleted, self.rooted)
        return tuple(map(tuple, lists)), rest
