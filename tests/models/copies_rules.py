# SPDX-License-Identifier: Apache-2.0
"""The steps of the small world of copies_model.py, and what must hold in it."""
from copies_state import CLOSED, CURRENT, MEMBERS, NONE, Home, World, n_of, word
from copies_worlds import MUTATIONS
from schedules import Broken


class Model:
    world = World

    def __init__(self, broken=None, homes=(0,), who=None, values=(1, 2, 3), slots=1):
        assert broken is None or broken in MUTATIONS
        self.broken, self.homes, self.who, self.values, self.slots = broken, homes, who or {}, values, slots

    # --- What must hold. Says whether nothing is under way, and all is as it is wished. ---

    def is_quiet(self, w):
        if w.deleted:
            if w.told and any(c != NONE for c in w.copy):
                raise Broken("a deleted object is back")
        elif sum(c > 0 and n_of(c) > 0 for c in w.copy) + w.lost < w.least:
            raise Broken(f"fewer than {w.least} copies are bound")
        if any(w.up) or any(w.down) or any(w.bind) or any(w.drop) or any(w.cut) or any(w.releasing):
            return False
        if any(p != NONE for p in w.pull) or any(t != NONE for t in w.taken) or len(set(w.version)) > 1:
            return False
        home, d = self.homes[w.version[0] - 1], w.homes[w.version[0] - 1]
        if any(d.seen[m] != CURRENT for m in MEMBERS if m != home):
            return False
        if w.deleted:
            return all(c == NONE for c in w.copy) and all(w.tomb)
        if all(c == NONE for c in w.copy):
            return True
        if d.wish < w.promised and w.lost < w.least:
            raise Broken("a wish that was answered is forgotten")
        if any(n_of(c) and c != d.wish for c in w.copy if c > 0):
            return False
        return len(self.counted(w, home, d)) >= n_of(d.wish)

    # A home that has lost a lower wish may hear of it yet, or not: both are right.
    @staticmethod
    def needed(w, d):
        return min(n_of(d.wish), n_of(w.lowered)) if w.lowered > d.wish else n_of(d.wish)

    def counted(self, w, home, d, besides=NONE):
        found = []
        for m in MEMBERS:
            said = w.copy[home] if m == home else d.said[m]
            stands = m == home or d.seen[m] == CURRENT
            if self.broken == "away ones count":
                stands = True
            if self.broken == "old words count":
                good = said > 0 and n_of(said) > 0
            else:
                good = said == d.wish and n_of(said) > 0
            if m != besides and stands and good:
                found.append(m)
        return found

    @staticmethod
    def ordered(w, d):
        return sum(1 for m in MEMBERS if (w.bind[m] or w.pull[m] > 0) and d.said[m] != d.wish)

    # --- Streams, and what a home hears ---

    def left(self, w, budget, m):
        return getattr(w, budget) and m in self.who.get(budget, MEMBERS)

    def home(self, w, m):
        return self.homes[w.version[m] - 1]

    # Nothing: the home has another list.
    def directory(self, w, m):
        return w.homes[w.version[m] - 1] if w.version[self.home(w, m)] == w.version[m] else None

    def say(self, w, m, *message):
        home = self.home(w, m)
        if m == home:
            if message[0] == "holds":
                self.heard_word(w.homes[w.version[m] - 1], message[1])
        elif w.stream[m] != CLOSED and not w.cut[m]:
            w.up[m] += (message,)

    def heard_word(self, d, said):
        if self.broken == "versions alone" and said // 4 <= d.wish // 4:
            return
        if self.broken == "the home's word stays" and d.wish:
            return
        d.wish = max(d.wish, said)

    # What a call was told, or may have been.
    def promise(self, w):
        if w.deleted:
            return
        for version, home in enumerate(self.homes, 1):
            d = w.homes[version - 1]
            if w.version[home] != version or not d.wish or d.wish < w.promised:
                continue
            if len(self.counted(w, home, d)) >= n_of(d.wish):
                w.promised, w.least = d.wish, self.needed(w, d)
                w.lost = sum(1 for m in self.counted(w, home, d) if w.unseen[m])

    # --- Steps ---

    def steps(self, now, state):
        for m in MEMBERS:
            for text, step, *more in self.choices(now, m):
                after = World(state)
                try:
                    step(after, m, *more)
                except Broken as broken:
                    raise Broken(f"{text}: {broken}") from broken
                self.promise(after)
                yield text, after.frozen()

    def choices(self, w, m):
        home, d = self.home(w, m), self.directory(w, m)
        if d and w.up[m]:
            yield f"home takes of {m}: {' '.join(map(str, w.up[m][0]))}", self.take_up
        if w.down[m]:
            yield f"{m} hears a yes", self.take_down
        for order in w.bind[m]:
            yield f"{m} takes the order {order}", self.take_bind, order
            yield f"the order {order} to {m} is lost", self.lose_bind, order
        if w.taken[m] != NONE:
            yield f"{m}'s answer to an order arrives", self.take_taken
        if w.drop[m]:
            yield f"{m} is told to drop", self.dropped
        yield from self.member_steps(w, m, home, d)
        if d:
            yield from self.home_steps(w, m, home, d)
        yield from self.failures(w, m, home, d)

    def member_steps(self, w, m, home, d):
        if m != home and w.stream[m] == CLOSED and d:
            yield f"{m} says hello and reports", self.hello
        if w.copy[m] > 0 and n_of(w.copy[m]) and not w.releasing[m] and self.left(w, "releases", m) and \
                (m == home or w.stream[m] != CLOSED):
            yield f"{m} asks to release", self.release
        if w.copy[m] >= 0 and not n_of(w.copy[m]) and self.left(w, "releases", m):
            yield f"{m} evicts", self.evict
        if w.pull[m] != NONE:
            if any(o != m and w.copy[o] >= 0 and w.version[o] == w.version[m] for o in MEMBERS):
                yield f"{m} has pulled", self.pulled
            yield f"{m} could not pull", self.not_pulled
        elif w.copy[m] == NONE and not w.tomb[m] and self.left(w, "gets", m):
            yield f"{m} gets", self.get

    def home_steps(self, w, m, home, d):
        if m == home:
            knows = any(d.said[o] >= 0 for o in MEMBERS if o != home) or w.copy[home] >= 0
            if w.sets and knows and not w.deleted and d.wish // 4 < 3:
                for n in self.values:
                    if n != n_of(d.wish):
                        yield f"set_copies({n})", self.set, n
            if w.deletes and knows and not w.deleted:
                yield "delete", self.delete
            if w.copy[m] > 0 and n_of(w.copy[m]) and w.copy[m] != d.wish or \
                    w.copy[m] != d.wish and n_of(d.wish) and not w.deleted and w.pull[m] == NONE and \
                    len(self.counted(w, home, d)) + self.ordered(w, d) <= n_of(d.wish):
                yield "home orders itself", self.order_self
            return
        if w.version[m] != w.version[home]:
            return
        if w.deleted and w.tomb[home]:
            if not d.acks >> m & 1 and not w.drop[m] and ("dropped",) not in w.up[m]:
                yield f"home orders {m} to drop", self.order_drop
            return
        if len(w.bind[m]) == self.slots or d.seen[m] == CLOSED:
            return
        if any(message[0] == "holds" for message in w.up[m]):
            return
        said = d.said[m]
        if (d.wish, 0, w.version[m]) in w.bind[m] or (d.wish, 1, w.version[m]) in w.bind[m]:
            return
        if self.broken != "old words stay" and said > 0 and n_of(said) and said != d.wish:
            yield f"home tells {m} its word", self.order_bind, 0
        # One above n: for one that is to be let go.
        if n_of(d.wish) and said != d.wish and \
                len(self.counted(w, home, d)) + self.ordered(w, d) <= n_of(d.wish):
            yield f"home orders {m}", self.order_bind, 1

    def failures(self, w, m, home, d):
        if m != home and w.stream[m] != CLOSED:
            if w.cut[m] or not d:
                yield f"{m} sees its stream's end", self.ends
            elif self.left(w, "breaks", m):
                yield f"{m}'s stream breaks, which it sees", self.breaks_here
                yield f"{m}'s stream breaks, which the home sees", self.breaks_there
        # The member has gone on, what is left of its stream may be lost.
        if m != home and d and (d.seen[m] != CLOSED or w.up[m]) and w.stream[m] == CLOSED:
            yield f"home sees the end of {m}'s stream", self.home_sees
        if self.left(w, "crashes", m):
            yield f"the server of {m} is killed", self.crash
        if self.left(w, "losses", m):
            yield f"the memory of {m} is lost", self.loss
        if w.changes and w.version[m] < len(self.homes):
            yield f"{m} has the next list", self.change

    # --- The member ---

    def hello(self, w, m):
        w.stream[m] = CURRENT
        w.up[m] += (("report", w.ident[m], w.copy[m], w.tomb[m]),)

    def release(self, w, m):
        w.releases -= 1
        if m == self.home(w, m):
            if self.may_go(w, m, self.directory(w, m)):
                self.let_go(w, m)
            return
        under_way = [x[1] for x in w.up[m] if x[0] == "releases"] + list(w.down[m])
        number = next(k for k in (1, 2, 3, 4, 5) if k not in under_way)
        if self.broken == "answers without numbers":
            number = 1
        w.releasing[m] = number
        self.say(w, m, "releases", number)

    def let_go(self, w, m):
        if w.copy[m] > 0:
            w.copy[m] = 0

    def take_down(self, w, m):
        number = w.down[m][0]
        w.down[m] = w.down[m][1:]
        if w.releasing[m] == number or self.broken == "a late yes":
            w.releasing[m] = 0
            self.let_go(w, m)

    def evict(self, w, m):
        w.releases -= 1
        w.copy[m] = NONE
        self.say(w, m, "gone")

    def take_bind(self, w, m, order):
        wish, may_pull, version = order
        self.lose_bind(w, m, order)
        if version != w.version[m] or w.tomb[m]:
            return
        if self.broken != "an order cancels nothing":
            w.releasing[m] = 0
        if w.copy[m] >= 0:
            if wish > w.copy[m] or self.broken == "any word is taken":
                w.copy[m] = wish
            self.say(w, m, "holds", w.copy[m])
            if self.broken == "the answer counts" and m != self.home(w, m):
                w.taken[m] = w.copy[m]
        elif may_pull:
            w.pull[m] = max(w.pull[m], wish)

    def lose_bind(self, w, m, order):
        w.bind[m] = tuple(one for one in w.bind[m] if one != order)

    def get(self, w, m):
        w.gets -= 1
        w.pull[m] = 0

    def pulled(self, w, m):
        w.copy[m] = w.pull[m]
        w.pull[m] = NONE
        self.say(w, m, "holds", w.copy[m])

    def not_pulled(self, w, m):
        w.pull[m] = NONE

    def dropped(self, w, m):
        w.drop[m] = 0
        w.tomb[m] = 1
        w.copy[m] = NONE
        w.releasing[m] = 0
        if self.broken != "a pull outlives a drop":
            w.pull[m] = NONE
        self.say(w, m, "dropped")

    # --- The home ---

    def may_go(self, w, m, d):
        others = self.counted(w, self.home(w, m), d, m)
        if n_of(d.wish) and len(others) < n_of(d.wish):
            return False
        real = sum(1 for o in MEMBERS if o != m and (w.copy[o] >= d.wish or o in others and w.unseen[o]))
        if real < self.needed(w, d) and not w.deleted:
            raise Broken(f"{m} may go, and {real} others are bound")
        return True

    def take_up(self, w, m):
        d = self.directory(w, m)
        kind, *rest = w.up[m][0]
        w.up[m] = w.up[m][1:]
        if kind == "report":
            d.seen[m] = CURRENT
            ident, d.said[m], tomb = rest
            if d.ident[m] != ident:
                d.ident[m] = ident
                d.acks &= ~(1 << m)
            if ident == w.ident[m]:
                w.unseen[m] = 0
            if w.tomb[self.home(w, m)]:
                d.said[m] = NONE
            elif d.said[m] > 0:
                self.heard_word(d, d.said[m])
            if tomb:
                self.acknowledged(w, m, d)
        elif kind == "holds":
            if not w.tomb[self.home(w, m)]:
                d.said[m] = rest[0]
                self.heard_word(d, rest[0])
        elif kind == "gone":
            d.said[m] = NONE
        elif kind == "dropped":
            d.said[m] = NONE
            self.acknowledged(w, m, d)
        elif kind == "releases":
            yes = self.may_go(w, m, d)
            if yes and d.said[m] > 0 and self.broken != "a yes changes nothing":
                d.said[m] = 0
            stands = w.stream[m] != CLOSED and not any(message[0] == "report" for message in w.up[m])
            if yes and (stands or self.broken == "a late yes"):
                w.down[m] += (rest[0],)
            elif w.releasing[m] == rest[0] and stands:
                w.releasing[m] = 0  # Only a yes may be late.

    def acknowledged(self, w, m, d):
        if w.deleted and w.tomb[self.home(w, m)]:
            d.acks |= 1 << m
            others = sum(1 << o for o in MEMBERS if o != self.home(w, m))
            w.told = int(w.told or d.acks & others == others)

    def take_taken(self, w, m):
        d = self.directory(w, m)
        if d and d.seen[m] != CLOSED and not w.deleted:
            d.said[m] = w.taken[m]
            self.heard_word(d, w.taken[m])
        w.taken[m] = NONE

    def order_bind(self, w, m, may_pull):
        w.bind[m] = tuple(sorted(w.bind[m] + ((self.directory(w, m).wish, may_pull, w.version[m]),)))

    def order_self(self, w, m):
        d = self.directory(w, m)
        if w.copy[m] >= 0:
            w.copy[m] = max(w.copy[m], d.wish)
        else:
            w.pull[m] = d.wish

    def set(self, w, m, n):
        d = self.directory(w, m)
        w.sets -= 1
        before = d.wish
        d.wish = word(d.wish // 4 + 1, n)
        if n < n_of(before):
            w.least, w.lowered = min(w.least, n), max(w.lowered, d.wish)

    def delete(self, w, m):
        w.deletes -= 1
        w.deleted = 1
        w.tomb[m], w.copy[m], w.pull[m] = 1, NONE, NONE
        d = self.directory(w, m)
        d.said = [NONE] * 3
        d.wish = 0

    def order_drop(self, w, m):
        w.drop[m] = 1

    # --- Failures ---

    def ends(self, w, m):
        w.stream[m] = CLOSED
        w.cut[m] = 0
        w.releasing[m] = 0
        if self.broken != "a late yes":
            w.down[m] = ()

    def breaks_here(self, w, m):
        w.breaks -= 1
        self.ends(w, m)

    def breaks_there(self, w, m):
        w.breaks -= 1
        w.cut[m] = 1
        self.home_sees(w, m)

    def home_sees(self, w, m):
        d = self.directory(w, m)
        d.seen[m] = CLOSED
        w.unseen[m] = 0
        w.up[m] = ()

    def crash(self, w, m):
        w.crashes -= 1
        self.dies(w, m)

    def dies(self, w, m):
        w.pull[m], w.bind[m], w.taken[m], w.drop[m], w.releasing[m] = NONE, (), NONE, 0, 0
        w.stream[m] = CLOSED
        w.cut[m], w.down[m] = 0, ()
        for version, home in enumerate(self.homes, 1):
            if home != m:
                continue
            for o in MEMBERS:
                if o != m and w.version[o] == version:
                    w.up[o] = ()
                    w.unseen[o] = 0
                    w.cut[o] = int(w.stream[o] != CLOSED)
            d = w.homes[version - 1] = Home()
            if w.version[m] == version:
                if w.copy[m] > 0:
                    self.heard_word(d, w.copy[m])

    def loss(self, w, m):
        w.losses -= 1
        bound = w.copy[m] > 0 and n_of(w.copy[m]) > 0
        home, d = self.home(w, m), self.directory(w, m)
        w.lost += bound
        w.copy[m], w.tomb[m] = NONE, 0
        w.ident[m] += 1
        self.dies(w, m)
        w.unseen[m] = int(bool(bound and m != home and d and (d.seen[m] != CLOSED or w.up[m])))

    def change(self, w, m):
        before = w.version[m]
        w.version[m] += 1
        w.stream[m], w.cut[m], w.up[m], w.unseen[m] = CLOSED, 0, (), 0
        if self.broken != "a yes of the list before":
            w.down[m], w.releasing[m] = (), 0
        if m == self.homes[before - 1]:
            for o in MEMBERS:
                if w.version[o] == before:
                    w.cut[o] = int(w.stream[o] != CLOSED)
        if m == self.homes[w.version[m] - 1]:
            w.homes[w.version[m] - 1] = Home()
            if w.copy[m] > 0:
                self.heard_word(w.homes[w.version[m] - 1], w.copy[m])
        if all(v == w.version[m] for v in w.version):
            w.homes[before - 1] = Home()
