# SPDX-License-Identifier: Apache-2.0
"""The state of the small world of copies_model.py.

A word {version, n} is 4 * version + n here. A copy is its word, 0 where it is not bound, or NONE: no copy.
"""
MEMBERS = (0, 1, 2)
NONE = -1
CLOSED, CURRENT = range(2)


def n_of(word):
    return word % 4


def word(version, n):
    return 4 * version + n


# What a home's process knows: of each member whether its stream stands (`seen`), what it has `said` that its
# copy is, the identity of its memory; the `wish`; which members have acknowledged the delete.
class Home:
    __slots__ = ("seen", "said", "ident", "wish", "acks")

    def __init__(self, frozen=None):
        if frozen:
            seen, said, ident, self.wish, self.acks = frozen
            self.seen, self.said, self.ident = list(seen), list(said), list(ident)
        else:
            self.seen, self.said, self.ident = [CLOSED] * 3, [NONE] * 3, [0] * 3
            self.wish = self.acks = 0

    def frozen(self):
        return tuple(self.seen), tuple(self.said), tuple(self.ident), self.wish, self.acks


# Of each member, in its memory: copy, `tomb` (it refuses the birth), identity. In its process: version of its
# list, stream, `releasing` (the number of the release that is under way), `pull` (the word that the copy is
# to have; NONE: none). Messages: `up` and `down`, of the stream; `bind` (word, may pull, version of the
# list), `taken`, the answer to one, for a broken rule; `drop`. `cut`: the home has left the stream, which the
# member has not seen. `unseen`: a memory was lost, and the home cannot know.
# Then what may still happen. Then what a call may have been told: `promised`, the word for which n were
# counted; `least`, n of it or of a later one; how many bound copies were `lost` since; whether the object was
# deleted, and that was `told`; `lowered`, the last word that lowered n.
class World:
    LISTS = ("copy", "tomb", "ident", "version", "stream", "releasing", "pull", "up", "down", "bind", "taken",
             "drop", "cut", "unseen")
    BUDGETS = ("breaks", "crashes", "losses", "releases", "gets", "sets", "deletes", "changes")
    FACTS = ("promised", "least", "lost", "deleted", "told", "lowered")
    __slots__ = LISTS + BUDGETS + FACTS + ("homes",)

    def __init__(self, frozen):
        lists, rest, homes = frozen
        (self.copy, self.tomb, self.ident, self.version, self.stream, self.releasing, self.pull, self.up,
         self.down, self.bind, self.taken, self.drop, self.cut, self.unseen) = map(list, lists)
        (self.breaks, self.crashes, self.losses, self.releases, self.gets, self.sets, self.deletes,
         self.changes, self.promised, self.least, self.lost, self.deleted, self.told, self.lowered) = rest
        self.homes = [Home(home) for home in homes]

    def frozen(self):
        lists = (self.copy, self.tomb, self.ident, self.version, self.stream, self.releasing, self.pull,
                 self.up, self.down, self.bind, self.taken, self.drop, self.cut, self.unseen)
        rest = (self.breaks, self.crashes, self.losses, self.releases, self.gets, self.sets, self.deletes,
                self.changes, self.promised, self.least, self.lost, self.deleted, self.told, self.lowered)
        return tuple(map(tuple, lists)), rest, tuple(home.frozen() for home in self.homes)
