#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every schedule of a small directory of objects (docs/design/052-directory.md), message by message.

Three members, one id, at most two births of it. Members make, look up, pull, evict; the home deletes; streams
break, servers are killed, a memory is lost, the list changes, which each member learns at its own time.
Messages of a stream arrive in order. Where it ends, each end sees that by itself, and what was sent may
arrive until then, or not. An ask and its answer are one step; the bytes of a pull come later. What only
time can tell is a condition: a member asks all without the home's word when the home, too, has seen the
stream's end.

Without arguments: the rules hold in all states of the small worlds, from each state one is reached in which
nothing is under way, and each broken rule of MUTATIONS is found. --large: larger worlds. --trace NAME: the
shortest schedule in which that broken rule does harm.
"""
import sys
import time

from directory_rules import Model
from directory_state import Broken, World
from directory_worlds import LARGE, MUTATIONS, WORLDS


# Visits all states breadth first. Returns how many, and the shortest schedule to a broken rule, if any. With
# `settles`: from each state one is reached in which nothing is under way.
def explore(model, start, settles=False):
    came_from = {start: None}
    before = {}
    layer, quiet = [start], []
    state = start
    try:
        while layer:
            following = []
            for state in layer:
                if model.check(World(state)):
                    quiet.append(state)
                for text, after in model.steps(state):
                    if settles:
                        before.setdefault(after, []).append(state)
                    if after not in came_from:
                        came_from[after] = (state, text)
                        following.append(after)
            layer = following
        if settles:
            state = unsettled(came_from, before, quiet)
            if state:
                raise Broken("it never settles")
    except Broken as broken:
        steps = [f"=> {broken}"]
        while came_from[state]:
            state, text = came_from[state]
            steps.append(text)
        return len(came_from), steps[::-1]
    return len(came_from), None


def unsettled(states, before, quiet):
    seen, open_ = set(quiet), list(quiet)
    while open_:
        for state in before.get(open_.pop(), ()):
            if state not in seen:
                seen.add(state)
                open_.append(state)
    return next((state for state in states if state not in seen), None)


def found_by(name):
    world = MUTATIONS[name][1]
    rules, start = WORLDS.get(world) or LARGE[world]
    return explore(Model(name, **rules), start)


def hold(worlds, settles):
    sound = True
    for name, (rules, start) in worlds.items():
        begin = time.process_time()
        states, schedule = explore(Model(**rules), start, settles)
        print(f"{states:8} states, {time.process_time() - begin:5.1f} s: {name}", flush=True)
        if schedule:
            sound = False
            print("\n".join(schedule))
    return sound


def main():
    if sys.argv[1:2] == ["--trace"]:
        _, schedule = found_by(" ".join(sys.argv[2:]))
        print("\n".join(schedule) if schedule else "no harm was found")
        return 0 if schedule else 1
    if sys.argv[1:2] == ["--large"]:
        return 0 if hold(LARGE, False) else 1
    sound = hold(WORLDS, True)
    for name, (meaning, _) in MUTATIONS.items():
        states, schedule = found_by(name)
        sound = sound and schedule is not None
        print(f"found: {meaning} ({schedule[-1][3:]}; {states} states)" if schedule else f"MISSED: {meaning}",
              flush=True)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
