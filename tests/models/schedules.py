# SPDX-License-Identifier: Apache-2.0
"""Visits every state of a small world, and runs a model: its worlds, and its broken rules."""
import gc
import sys
import time


class Broken(Exception):
    """What must hold does not."""


def explore(model, start, settles):
    """Visits all states breadth first. Returns how many, and the shortest schedule to a broken rule, if any.
    With `settles`: from each state one is reached in which nothing is under way."""
    came_from = {start: None}
    before = {}
    layer, quiet = [start], []
    state = start
    try:
        while layer:
            following = []
            for state in layer:
                world = model.world(state)
                if model.is_quiet(world):
                    quiet.append(state)
                for text, after in model.steps(world, state):
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


class Runs:
    """A model's worlds (name: rules and first state), larger ones, and broken rules (name: meaning, world).
    `settles`: large worlds and those of broken rules are to settle, too."""

    def __init__(self, model, worlds, large, mutations, settles):
        self.model, self.worlds, self.large = model, worlds, large
        self.mutations, self.settles = mutations, settles

    def hold(self, worlds, settles):
        sound = True
        for name, (rules, start) in worlds.items():
            begin = time.process_time()
            states, schedule = explore(self.model(**rules), start, settles)
            print(f"{states:8} states, {time.process_time() - begin:5.1f} s: {name}", flush=True)
            if schedule:
                sound = False
                print("\n".join(schedule))
        return sound

    def found_by(self, name):
        world = self.mutations[name][1]
        rules, start = self.worlds.get(world) or self.large[world]
        return explore(self.model(name, **rules), start, self.settles)

    def are_found(self):
        sound = True
        for name, (meaning, _) in self.mutations.items():
            states, schedule = self.found_by(name)
            sound = sound and schedule is not None
            harm = schedule and f"{schedule[-1][3:]}; {states} states"
            print(f"found: {meaning} ({harm})" if harm else f"MISSED: {meaning}", flush=True)
        return sound

    def main(self):
        """The exit code."""
        gc.disable()  # States make no cycles, and are many.
        if sys.argv[1:2] == ["--trace"]:
            _, schedule = self.found_by(" ".join(sys.argv[2:]))
            print("\n".join(schedule) if schedule else "no harm was found")
            return 0 if schedule else 1
        if sys.argv[1:2] == ["--large"]:
            return 0 if self.hold(self.large, self.settles) else 1
        sound = self.hold(self.worlds, True)
        return 0 if self.are_found() and sound else 1
