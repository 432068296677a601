#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every schedule of a small world of objects (docs/design/050-objects.md), step by step.

One id, a few pieces of memory, an owner whose every store is a step and which is killed between any two,
readers that look, pin, look again and hold, creators that repeat their calls over other connections, deletes,
evictions. Without arguments: the rules hold in all states, and each broken rule of MUTATIONS is found. With
--trace NAME: the shortest schedule in which that broken rule does harm.
"""
import sys
from collections import namedtuple

# What is in shared memory: `sealed` (cell, birth, version), `creation` (cell, birth), `departed` a birth for
# each cell, `words` two for each cell, `taken` the heap's word for each. Then what the owner knows by itself:
# `owner` what it does, `free`, `gone`, `pulls` (cell, birth, words that landed, number). Then the others:
# `readers`, `clients`, `calls` under way, what may still happen, and what has: `whole` what each birth was
# sealed with, `told` births whose delete was acknowledged.
World = namedtuple("World", "sealed creation departed words taken owner free gone pulls readers clients "
                            "calls version deletes evictions crashes whole told")

MUTATIONS = {
    "publish early": "the record of kind sealed is stored before the last word of the body",
    "pins first": "pins are looked at before the record is removed",
    "no second look": "a reader that has pinned does not look again",
    "departed late": "the departed record is stored after the removal",
    "no departed": "a departure stores no record",
    "departed behind release": "the departed record goes after the memory",
    "recovery prefers departed": "of a departed and a sealed record the departed one is believed",
    "recovery ignores departed": "recovery forgets departed records",
    "creation stays": "recovery leaves a creation beside its sealed record",
    "repeat is new": "a create that comes again takes room again",
    "births forgotten": "a put that comes late is executed again",
    "two pulls": "a seal that comes again begins a second pull beside the first",
    "abort beside pull": "an abort gives the room back while a pull is under way",
}
PUT, MADE = 1, 2  # Births: put in one message; created, filled, sealed.
IDLE = ("idle",)


class Broken(Exception):
    pass


def swapped(items, at, item):
    return items[:at] + (item,) + items[at + 1:]


def without(items, item):
    at = items.index(item)
    return items[:at] + items[at + 1:]


def named(world):
    cells = {cell for cell, birth in enumerate(world.departed) if birth}
    if world.sealed:
        cells.add(world.sealed[0])
    if world.creation:
        cells.add(world.creation[0])
    return cells


def pinned(world):
    return frozenset(reader[1] for reader in world.readers if reader[0] in ("pinned", "held"))


def check(world):
    if world.sealed:
        cell, birth, _ = world.sealed
        if world.words[cell] != world.whole[birth] or None in world.words[cell]:
            raise Broken("an object's bytes are not those that it was sealed with")
        if birth in world.told:
            raise Broken("a deleted object is found again")
    names = named(world)
    for reader in world.readers:
        if reader[0] != "held":
            continue
        if world.words[reader[1]] != world.whole[reader[2]]:
            raise Broken("the bytes behind a handle have changed")
        if reader[1] not in names:
            raise Broken("memory that is held has no name")
    for cell in names:
        births = {record[1] for record in (world.sealed, world.creation) if record and record[0] == cell}
        if world.departed[cell]:
            births.add(world.departed[cell])
        if len(births) > 1:
            raise Broken("two objects share memory")
    if world.owner == IDLE:
        if world.free & names:
            raise Broken("a record names free memory")
        if world.free | names != frozenset(range(len(world.words))):
            raise Broken("memory is lost")


class Model:
    def __init__(self, broken=None):
        assert broken is None or broken in MUTATIONS
        self.broken = broken

    def steps(self, world):
        yield from self.reader_steps(world)
        yield from self.client_steps(world)
        yield from self.pull_steps(world)
        yield from self.owner_steps(world)
        if world.crashes:
            yield "the server is killed", self.killed(world)

    # --- Readers ---

    def reader_steps(self, world):
        for at, reader in enumerate(world.readers):
            def to(*state):
                return world._replace(readers=swapped(world.readers, at, state))
            if reader[0] == "new":
                if world.sealed:
                    yield f"reader {at} looks", to("seen", *world.sealed)
            elif reader[0] == "seen":
                state = "held" if self.broken == "no second look" else "pinned"
                yield f"reader {at} pins", to(state, *reader[1:])
            elif reader[0] == "pinned":
                if world.sealed and world.sealed[2] == reader[3]:
                    yield f"reader {at} looks again, and holds", to("held", *reader[1:])
                else:
                    yield f"reader {at} looks again, and unpins", to("over")
            elif reader[0] == "held":
                yield f"reader {at} unpins", to("over")

    # --- Clients. One is (what it waits for, sends left); a call is answered where the owner ends it. ---

    def client_steps(self, world):
        put, made = world.clients
        if put[0] == "put" and put[1]:
            yield "put is sent", self.sent(world, 0, ("put", PUT))
        for call in ("create", "seal", "abort"):
            if made[0] == call and made[1]:
                yield f"{call} is sent", self.sent(world, 1, (call, MADE))
        if made[0] == "seal":
            yield "the creator aborts", world._replace(clients=(put, ("abort", 1)))
        if world.sealed and world.deletes:
            yield "delete is sent", world._replace(
                deletes=world.deletes - 1, calls=self.with_call(world, ("delete", world.sealed[1])))

    @staticmethod
    def with_call(world, call):
        return tuple(sorted(world.calls + (call,)))

    def sent(self, world, who, call):
        waits_for, left = world.clients[who]
        return world._replace(clients=swapped(world.clients, who, (waits_for, left - 1)),
                              calls=self.with_call(world, call))

    @staticmethod
    def answered(world, call, then):
        who = 0 if call == "put" else 1
        if world.clients[who][0] != call:
            return world
        return world._replace(clients=swapped(world.clients, who, then))

    # --- READs of a creator's memory ---

    def pull_steps(self, world):
        for pull in world.pulls:
            cell, birth, landed, number = pull
            if landed == 2:
                continue
            words = swapped(world.words[cell], landed, (birth, number))
            pulls = tuple(sorted(without(world.pulls, pull) + ((cell, birth, landed + 1, number),)))
            yield f"word {landed} of pull {number} lands", world._replace(
                words=swapped(world.words, cell, words), pulls=pulls)

    # --- The owner: (what, birth, cell, step, pins seen) ---

    def owner_steps(self, world):
        what = world.owner[0]
        if what == "idle":
            yield from self.begun(world)
        elif what == "recover":
            yield self.recovering(world)
        else:
            yield getattr(self, what)(world, *world.owner[1:])

    def begun(self, world):
        for call in dict.fromkeys(world.calls):
            after = self.taken(world._replace(calls=without(world.calls, call)), *call)
            if after is not None:
                yield f"{call[0]} of {call[1]} is taken", after
        for pull in world.pulls:
            cell, birth, landed, _ = pull
            owner = ("publish", birth, cell, 0) if world.creation == (cell, birth) else IDLE
            if landed == 2:
                yield "a pull has ended", world._replace(pulls=without(world.pulls, pull), owner=owner)
            elif landed == 1 and self.broken == "publish early":
                yield "a pull has not ended", world._replace(owner=owner)
        if world.sealed and world.evictions and world.sealed[0] not in pinned(world):
            cell, birth, _ = world.sealed
            yield "eviction", world._replace(evictions=world.evictions - 1,
                                             owner=("depart", birth, cell, 0, None, False))
        for cell, birth in enumerate(world.departed):
            if birth and cell not in pinned(world):
                yield "a departed one is looked at", world._replace(
                    owner=("depart", birth, cell, 3, frozenset(), False))

    # None: it waits.
    def taken(self, world, call, birth):
        is_sealed = world.sealed is not None and world.sealed[1] == birth
        is_open = world.creation is not None and world.creation[1] == birth
        under_way = any(pull[1] == birth for pull in world.pulls)
        if call == "delete":
            if not is_sealed:
                return world
            return world._replace(owner=("depart", birth, world.sealed[0], 0, None, True))
        if call in ("create", "put"):
            then = ("seal", 2) if call == "create" else ("over", 0)
            if is_sealed or (is_open and call == "create" and self.broken != "repeat is new"):
                return self.answered(world, call, then)
            is_gone = birth in world.gone and self.broken != "births forgotten"
            is_other = (world.sealed or world.creation) and not (is_open and self.broken == "repeat is new")
            if is_gone or is_other or not world.free:
                return self.answered(world, call, ("over", 0))
            cell = min(world.free)
            return world._replace(free=world.free - {cell}, taken=swapped(world.taken, cell, True),
                                  owner=("make", birth, cell, 0, call == "put"))
        if call == "seal":
            if not is_open:
                return self.answered(world, call, ("over", 0))
            if under_way and self.broken != "two pulls":
                return None
            pull = (world.creation[0], birth, 0, 1 + len(world.pulls))
            return world._replace(pulls=tuple(sorted(world.pulls + (pull,))))
        if not is_open:
            return self.answered(world._replace(gone=world.gone | {birth}), call, ("over", 0))
        if under_way and self.broken != "abort beside pull":
            return None
        return world._replace(owner=("abandon", birth, world.creation[0], 0))

    # A creation, and of what came in a message its bytes.
    def make(self, world, birth, cell, step, is_put):
        if step == 0:
            owner = ("make", birth, cell, 1, True) if is_put else IDLE
            world = world._replace(creation=(cell, birth), owner=owner)
            return "creation is stored", world if is_put else self.answered(world, "create", ("seal", 2))
        words = swapped(world.words[cell], step - 1, (birth, 0))
        world = world._replace(words=swapped(world.words, cell, words))
        owner = ("make", birth, cell, 2, True) if step == 1 else ("publish", birth, cell, 0)
        return "a word is copied", world._replace(owner=owner)

    def publish(self, world, birth, cell, step):
        if step == 0:
            whole = swapped(world.whole, birth, world.words[cell])
            return "sealed is stored", world._replace(
                sealed=(cell, birth, world.version), version=world.version + 1, whole=whole,
                owner=("publish", birth, cell, 1))
        world = self.answered(world._replace(creation=None, owner=IDLE), "seal", ("over", 0))
        return "creation is removed", self.answered(world, "put", ("over", 0)) if birth == PUT else world

    def abandon(self, world, birth, cell, step):
        if step == 0:
            return "creation is removed", world._replace(
                creation=None, gone=world.gone | {birth}, owner=("abandon", birth, cell, 1))
        return "room is given back", self.answered(self.released(world, cell), "abort", ("over", 0))

    def depart(self, world, birth, cell, step, pins, is_call):
        order = ["store", "remove", "look", "forget", "release"]
        if self.broken == "departed late":
            order = ["remove", "store", "look", "forget", "release"]
        elif self.broken == "pins first":
            order = ["look", "store", "remove", "forget", "release"]
        elif self.broken == "no departed":
            order = ["remove", "look", "release", "release", "release"]
        elif self.broken == "departed behind release":
            order = ["store", "remove", "look", "release", "forget"]
        do = order[step]
        if do == "store":
            world = world._replace(departed=swapped(world.departed, cell, birth))
        elif do == "remove":
            world = world._replace(sealed=None, gone=world.gone | {birth})
        elif do == "look":
            pins = pinned(world)
        elif do == "forget":
            world = world._replace(departed=swapped(world.departed, cell, 0))
        elif do == "release":
            world = self.released(world, cell)
        is_looked = "look" in order[:step + 1] and "remove" in order[:step + 1]
        is_over = step == len(order) - 1 or (is_looked and pins is not None and cell in pins)
        is_over = is_over or (self.broken == "no departed" and do == "release")
        if not is_over:
            return f"{do} {birth}", world._replace(owner=("depart", birth, cell, step + 1, pins, is_call))
        told = world.told | {birth} if is_call else world.told
        return f"{do} {birth}, and that is all", world._replace(owner=IDLE, told=told)

    @staticmethod
    def released(world, cell):
        return world._replace(free=world.free | {cell}, taken=swapped(world.taken, cell, False), owner=IDLE)

    # --- The end of a server, and the next one ---

    # Calls and READs of its connections end with it. Creators come back, a put that was sent does not.
    def killed(self, world):
        put, made = world.clients
        put = ("over", 0) if put[0] == "put" and put[1] < 2 else put
        made = (made[0], max(made[1], 1)) if made[0] != "over" else made
        return world._replace(owner=("recover",), free=frozenset(), gone=frozenset(), pulls=(), calls=(),
                              clients=(put, made), crashes=world.crashes - 1)

    def recovering(self, world):
        sealed, creation, departed = world.sealed, world.creation, world.departed
        if self.broken == "recovery ignores departed" and any(departed):
            return "recovery forgets", world._replace(departed=tuple(0 for _ in departed))
        if creation and sealed and creation[0] == sealed[0] and self.broken != "creation stays":
            return "recovery removes a creation", world._replace(creation=None)
        if sealed and departed[sealed[0]] and self.broken != "recovery prefers departed":
            return "recovery drops a departed one", world._replace(departed=swapped(departed, sealed[0], 0))
        if creation and departed[creation[0]]:
            return "recovery removes a creation", world._replace(creation=None)
        names = named(world)
        if any(not world.taken[cell] for cell in names):
            raise Broken("a start finds damage: a record names memory that the heap has free")
        cells = range(len(world.words))
        return "recovery ends", world._replace(owner=IDLE, free=frozenset(cells) - names,
                                               taken=tuple(cell in names for cell in cells))


def world_of(cells=2, readers=1, puts=0, makes=0, deletes=0, evictions=0, crashes=0):
    return World(sealed=None, creation=None, departed=(0,) * cells, words=((None, None),) * cells,
                 taken=(False,) * cells, owner=IDLE, free=frozenset(range(cells)), gone=frozenset(), pulls=(),
                 readers=(("new",),) * readers,
                 clients=(("put" if puts else "over", puts), ("create" if makes else "over", makes)),
                 calls=(), version=1, deletes=deletes, evictions=evictions, crashes=crashes,
                 whole=(None,) * 3, told=frozenset())


# Each is small, and together they have what the rules are about.
WORLDS = {
    "a put and a creation, two readers, a delete, a crash": world_of(
        readers=2, puts=1, makes=1, deletes=1, crashes=1),
    "calls that are repeated, deletes": world_of(readers=1, puts=2, makes=2, deletes=2),
    "one piece of memory, crashes in recovery": world_of(
        cells=1, readers=1, puts=1, makes=1, deletes=1, evictions=1, crashes=2),
    "evictions and deletes, a crash": world_of(readers=1, puts=1, makes=1, deletes=1, evictions=1, crashes=1),
}


# Visits all states breadth first. Returns how many, and the shortest schedule to a broken rule, if any.
def explore(model, start):
    came_from = {start: None}
    layer = [start]
    state = start
    try:
        while layer:
            following = []
            for state in layer:
                check(state)
                for text, after in model.steps(state):
                    if after not in came_from:
                        came_from[after] = (state, text)
                        following.append(after)
            layer = following
    except Broken as broken:
        steps = [f"=> {broken}"]
        while came_from[state]:
            state, text = came_from[state]
            steps.append(text)
        return len(came_from), steps[::-1]
    return len(came_from), None


def trace(name):
    for start in WORLDS.values():
        _, schedule = explore(Model(name), start)
        if schedule:
            print("\n".join(schedule))
            return 0
    print("no harm was found")
    return 1


def main():
    if sys.argv[1:2] == ["--trace"]:
        return trace(" ".join(sys.argv[2:]))
    failed = False
    for name, start in WORLDS.items():
        states, schedule = explore(Model(), start)
        print(f"{states:8} states: {name}", flush=True)
        if schedule:
            failed = True
            print("\n".join(schedule))
    for name, meaning in MUTATIONS.items():
        found = None
        for start in WORLDS.values():
            _, found = explore(Model(name), start)
            if found:
                break
        failed = failed or found is None
        print(f"found: {meaning} ({found[-1][3:]})" if found else f"MISSED: {meaning}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
