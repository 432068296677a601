# SPDX-License-Identifier: Apache-2.0
"""The steps of the small world of broadcast_model.py, and what must hold in it."""
from broadcast_state import (ABSENT, ALIVE, BOTH, DEAD, DID_NOT, ENDING, GONE, GOT_IT, LOOKED, OPEN_END,
                             PULLING, SEALED, STOPPED, World)
from broadcast_worlds import MUTATIONS
from schedules import Broken


class Model:
    world = World

    def __init__(self, broken=None, plans=(), who=None, is_late=False):
        assert broken is None or broken in MUTATIONS
        self.broken, self.plans, self.who, self.is_late = broken, plans, who or {}, is_late

    # --- What must hold. Says whether nothing is under way. ---

    def is_quiet(self, w):
        rooted = w.rooted and w.life[0] == ALIVE and not w.deleted
        for n, life in enumerate(w.life):
            if life != ALIVE:
                continue
            if w.st[n] not in (ABSENT, SEALED) or w.orders[n] or w.owed[n] or w.news[n] != OPEN_END:
                return False
            if w.deleted and (not w.ack[n] or all(w.ack) and w.tomb[n]):
                return False
        for n, life in enumerate(w.life):
            if life == ALIVE and rooted and not w.spoiled[n] and w.told[n] == DID_NOT:
                raise Broken(f"{n} has not got it, without trouble of its own")
        return True

    # --- Who gives what ---

    # Of each: the node, and whether it is asked by FOLLOW.
    def sources(self, w, n):
        plan = w.plan[n]
        forebears = self.plans[plan - 1][n] if plan else ()
        if self.broken == "holders are receivers" and n < 2 and plan:
            forebears = ((3, 1), (2, 0))[n]
        follows_all = plan and self.broken == "all are followed"
        others = tuple((p, follows_all) for p in range(len(w.st)) if p != n and p not in forebears)
        return tuple((p, True) for p in forebears) + others

    def gives(self, w, p, n, is_follow):
        if w.st[p] == SEALED:
            return True
        if not is_follow or w.st[p] != PULLING:
            return False
        if w.dropped[p] and self.broken != "a dropped pull gives":
            return False
        return w.plan[p] in (0, w.plan[n]) or self.broken == "any plan is followed"

    @staticmethod
    def ready(w, p):
        if w.st[p] in (SEALED, GONE):
            return 2
        return (0, 1, 0, 2)[w.have[p]]

    # Followers with a transfer that stands; they hold the object in its place.
    def is_followed(self, w, p):
        return any(w.st[n] == PULLING and w.link[n] and w.link[n] == w.win[p] and self.source(w, n) == p
                   for n in range(len(w.st)) if w.life[n] != DEAD)

    def source(self, w, n):
        sources = self.sources(w, n)
        return sources[w.src[n]][0] if w.src[n] < len(sources) else None

    # --- Steps ---

    def left(self, w, budget, n):
        return getattr(w, budget) and n in self.who.get(budget, range(len(w.st)))

    def steps(self, now, state):
        for n in range(len(now.st)):
            for text, step, *more in self.choices(now, n):
                after = World(state)
                try:
                    step(after, n, *more)
                except Broken as broken:
                    raise Broken(f"{text}: {broken}") from broken
                yield text, after.frozen()
        if now.deletes:
            after = World(state)
            after.deletes, after.deleted = 0, 1
            yield "the home buries it", after.frozen()

    def choices(self, w, n):
        if w.life[n] == DEAD:
            return
        if self.left(w, "kills", n):
            yield f"{n} is killed", self.kill
        if w.life[n] == STOPPED:
            return
        yield from self.troubles(w, n)
        if w.deleted and not w.ack[n]:
            yield f"{n} drops it", self.drop
        if w.tomb[n] and all(w.ack):
            yield f"{n} forgets the tombstone", self.forget
        for plan in (1, 2):
            if w.orders[n] & plan and w.st[n] not in (ENDING, GONE):
                yield f"{n} takes the order of plan {plan}", self.take_order, plan
        if w.st[n] == LOOKED:
            yield f"{n} begins to pull, plan {w.plan[n]}", self.begin
        elif w.st[n] == PULLING:
            yield from self.pulling(w, n)
        elif w.st[n] == ENDING:
            yield f"{n} gives its room back", self.give_back, w.plan[n]
            if w.rounds[n] and w.plan[n]:
                yield f"{n} gives its room back, and is to pull without a plan", self.give_back, 0
        elif w.st[n] == GONE and not self.is_followed(w, n):
            yield f"{n} lets the last transfer go", self.let_go
        if w.news[n] != OPEN_END:
            yield f"{n} hears that {w.news[n][2]} are ready at {w.news[n][0]}", self.hear

    def troubles(self, w, n):
        if self.left(w, "stops", n):
            yield f"{n} is stopped", self.stop
        if self.left(w, "restarts", n) and w.st[n] != ABSENT:
            yield f"{n}'s server begins again", self.restart
        if self.left(w, "failures", n) and w.st[n] == PULLING:
            yield f"{n}'s pull fails", self.fail
        if self.left(w, "shortages", n) and w.st[n] == LOOKED:
            yield f"{n} has no room", self.lack_room
        if self.left(w, "gets", n) and w.st[n] == ABSENT and not w.deleted:
            yield f"{n} looks it up for a get", self.get
        is_pinned = self.is_followed(w, n) and self.broken != "no pins"
        if self.left(w, "evictions", n) and w.st[n] == SEALED and not is_pinned:
            yield f"{n} evicts it", self.evict

    def pulling(self, w, n):
        if w.have[n] == BOTH:
            yield f"{n} seals", self.seal
            return
        sources = self.sources(w, n)
        if w.src[n] == len(sources):
            yield f"{n} has no source left", self.end_pull
            return
        p, is_follow = sources[w.src[n]]
        if w.life[p] != ALIVE:
            if w.life[p] == DEAD or self.broken != "stopped ones are waited for":
                yield f"{n} leaves {p}, which is away", self.leave
        elif not w.link[n]:
            if self.gives(w, p, n, is_follow):
                yield f"{n} {'FOLLOWs' if is_follow else 'TRANSFERs from'} {p}", self.open_link, p
            else:
                yield f"{n} does not find it at {p}", self.leave
        elif w.link[n] != w.win[p]:
            if self.broken != "an end is not told":
                yield f"{n} leaves {p}, whose transfer has ended", self.leave
                yield f"{n} is to ask {p} again, whose transfer has ended", self.close_link
        else:
            yield from self.taking(w, n, p)

    def taking(self, w, n, p):
        for piece in (0, 1):
            is_known = piece < w.known[n] or self.broken == "what is not ready is taken"
            if not w.have[n] & 1 << piece and is_known:
                yield f"{n} takes piece {piece} from {p}", self.take, p, piece
        if self.ready(w, p) > w.known[n] and w.news[n] == OPEN_END:
            yield f"{p} answers {n} that {self.ready(w, p)} are ready", self.progress, p
        if self.left(w, "impatient", n) and w.st[p] != SEALED:
            yield f"{n} leaves {p}, from which nothing comes", self.leave_impatiently

    # --- The receiver ---

    def take_order(self, w, n, plan):
        w.orders[n] &= ~plan
        if w.st[n] == SEALED:
            w.told[n] = GOT_IT
        elif w.st[n] == ABSENT:
            self.look(w, n, plan)
        else:
            w.owed[n] = 1
            if self.broken == "an order changes a pull" and w.st[n] == PULLING:
                w.plan[n], w.src[n], w.link[n], w.known[n] = plan, 0, 0, 0

    # As the home says it.
    @staticmethod
    def look(w, n, plan):
        if w.deleted:
            w.told[n] = DID_NOT
        else:
            w.st[n], w.plan[n], w.owed[n] = LOOKED, plan, 1

    @staticmethod
    def get(w, n):
        w.gets -= 1
        w.st[n], w.plan[n] = LOOKED, 0

    def begin(self, w, n):
        if w.tomb[n]:
            return self.over(w, n)
        w.st[n], w.src[n], w.link[n], w.known[n], w.dropped[n] = PULLING, 0, 0, 0, 0
        w.have[n] = w.good[n] = 0
        w.gen[n] += 1
        w.win[n] = w.gen[n]

    def open_link(self, w, n, p):
        w.link[n] = w.win[p]
        ready = self.ready(w, p)
        w.known[n] = max(w.known[n], ready) if self.broken == "ready outlives its transfer" else ready

    def close_link(self, w, n):
        w.link[n] = 0
        if self.broken != "ready outlives its transfer":
            w.known[n] = 0

    def leave(self, w, n):
        self.close_link(w, n)
        w.known[n] = 0
        w.src[n] += 1

    def leave_impatiently(self, w, n):
        w.impatient -= 1
        self.leave(w, n)

    @staticmethod
    def take(w, n, p, piece):
        w.have[n] |= 1 << piece
        w.good[n] |= w.good[p] & 1 << piece

    def progress(self, w, n, p):
        w.news[n] = (p, w.win[p], self.ready(w, p))
        if not self.is_late:
            self.hear(w, n)

    def hear(self, w, n):
        p, link, ready = w.news[n]
        w.news[n] = OPEN_END
        if w.st[n] != PULLING or not w.link[n] or self.source(w, n) != p:
            return
        if w.link[n] == link or self.broken == "late answers count":
            w.known[n] = max(w.known[n], ready)

    def seal(self, w, n):
        if w.dropped[n]:
            return self.end_pull(w, n)
        if w.good[n] != BOTH:
            raise Broken("another object's bytes are in a sealed copy")
        if w.ack[n]:
            raise Broken("a deleted object is back")
        w.st[n], w.plan[n], w.src[n], w.link[n], w.known[n] = SEALED, 0, 0, 0, 0
        if w.owed[n]:
            w.owed[n], w.told[n] = 0, GOT_IT

    # In two steps, since what comes between them is what the order is about.
    def end_pull(self, w, n):
        w.st[n], w.src[n], w.link[n], w.known[n] = ENDING, 0, 0, 0
        if self.broken == "room first":
            w.have[n] = w.good[n] = 0
        else:
            w.win[n] = 0

    def give_back(self, w, n, plan):
        w.have[n] = w.good[n] = w.win[n] = 0
        if not w.rounds[n] or w.deleted:
            return self.over(w, n)
        w.rounds[n] -= 1
        w.st[n], w.plan[n], w.dropped[n] = LOOKED, plan, 0

    @staticmethod
    def over(w, n):
        w.st[n], w.plan[n], w.dropped[n] = ABSENT, 0, 0
        if w.owed[n]:
            w.owed[n], w.told[n] = 0, DID_NOT

    # --- Deletes ---

    def drop(self, w, n):
        w.tomb[n] = w.ack[n] = 1
        if w.st[n] == PULLING and self.broken != "a pull outlives a drop":
            w.dropped[n] = 1
        if w.st[n] == SEALED:
            w.st[n] = GONE
            if not self.is_followed(w, n):
                self.let_go(w, n)

    @staticmethod
    def forget(w, n):
        w.tomb[n] = 0

    @staticmethod
    def let_go(w, n):
        w.st[n], w.have[n], w.good[n], w.win[n] = ABSENT, 0, 0, 0

    # --- Trouble ---

    def clear(self, w, n):
        w.st[n], w.plan[n], w.src[n], w.link[n], w.known[n], w.dropped[n] = ABSENT, 0, 0, 0, 0, 0
        w.have[n] = w.good[n] = w.win[n] = 0
        w.news[n] = OPEN_END

    def kill(self, w, n):
        w.kills -= 1
        self.clear(w, n)
        w.life[n], w.orders[n], w.owed[n], w.rounds[n], w.gen[n], w.tomb[n] = DEAD, 0, 0, 0, 0, 0

    @staticmethod
    def stop(w, n):
        w.stops -= 1
        w.life[n] = STOPPED

    # The caller of an order whose session has ended is told that the node is away.
    def restart(self, w, n):
        w.restarts -= 1
        if w.st[n] == SEALED:
            w.gen[n] += 1
            w.win[n] = w.gen[n]
        else:
            self.clear(w, n)
        if w.owed[n]:
            w.owed[n], w.told[n] = 0, DID_NOT
        w.spoiled[n] = 1
        w.rooted = w.rooted and n > 0

    def fail(self, w, n):
        w.failures -= 1
        w.spoiled[n] = 1
        self.end_pull(w, n)

    def lack_room(self, w, n):
        w.shortages -= 1
        w.spoiled[n] = 1
        self.over(w, n)

    def evict(self, w, n):
        w.evictions -= 1
        w.rooted = w.rooted and n > 0
        w.st[n], w.have[n], w.good[n] = ABSENT, 0, 0
        if self.broken != "no pins":
            w.win[n] = 0
