# SPDX-License-Identifier: Apache-2.0
"""Two transactions that cross: each has its home at the one shard, its part at the other.

Both are decided, neither "decided" is confirmed, and both logs have failed. A shard's snapshot mends its log.
"""
from typing import NamedTuple

from schedules import Broken


# `held`: its part's key in memory is pending. On its disk: whether its own transaction is decided there, and
# whether its part is still open.
class Crossed(NamedTuple):
    failed: bool = True
    held: bool = True
    decided: bool = False
    open_: bool = True


CROSSED = (Crossed(), Crossed())


class Crossing:
    def __init__(self, broken):
        self.broken = broken

    @staticmethod
    def world(state):
        return state

    # Also whenever the host dies: what is open at the part is what its home's disk says.
    def is_quiet(self, state):
        for home, part in (state, state[::-1]):
            if not part.open_ and not home.decided:
                raise Broken("half a transaction, if the host dies now")
        return not any(shard.failed or shard.held for shard in state)

    def steps(self, _, state):
        moves = list(self.moves(state))
        if not moves and not self.is_quiet(state):
            raise Broken("they wait for each other for ever")
        return moves

    def moves(self, state):
        for i in (0, 1):
            shard, home = state[i], state[1 - i]
            moved = []
            if shard.held and (not home.failed or (shard.failed and self.broken == "crossed, unconfirmed")):
                moved.append(("settles its part", shard._replace(
                    held=False, open_=shard.open_ and shard.failed)))
            waits = shard.held and self.broken in ("none prepared", "crossed, unconfirmed")
            if shard.failed and not waits:
                moved.append(("has a snapshot", shard._replace(
                    failed=False, decided=True, open_=shard.held)))
            for text, after in moved:
                yield f"shard {i} {text}", (after, home) if i == 0 else (home, after)
