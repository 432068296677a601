# SPDX-License-Identifier: Apache-2.0
"""The small worlds of broadcast_model.py: how each begins, and what may happen in it."""
from broadcast_state import ABSENT, ALIVE, BOTH, OPEN_END, SEALED, World

# Of each node its forebears, the nearest first. 0 is the root.
CHAIN3 = ((), (0,), (1, 0))
CHAIN4 = ((), (0,), (1, 0), (2, 1, 0))
TREE4 = ((), (0,), (1, 0), (1, 0))
OTHER_WAY = ((), (2, 0), (0,))
LAST_FIRST = ((), (3, 0), (0,), (0,))
TWO_ROOTS = ((), (), (0,), (1,))


# `plans`: one or two, whose orders are on their way to all but the root, or as `orders` says: of each node a
# set. `whole`: who has it. `rounds`: how often a pull that failed begins again. `who`: which nodes may do
# what the budgets are for, where not all may. `is_late`: answers to PROGRESS travel by themselves.
def world_of(*plans, whole=(0,), rounds=1, who=None, is_late=False, orders=None, **budgets):
    nodes = range(len(plans[0]))
    lists = {name: (0,) * len(nodes) for name in World.LISTS}
    orders = orders or (0,) + ((1 << len(plans)) - 1,) * (len(nodes) - 1)
    has = [n in whole for n in nodes]
    pieces = tuple(BOTH if one else 0 for one in has)
    lists.update(st=tuple(SEALED if one else ABSENT for one in has), have=pieces, good=pieces,
                 gen=tuple(map(int, has)), win=tuple(map(int, has)), news=(OPEN_END,) * len(nodes),
                 life=(ALIVE,) * len(nodes), rounds=tuple(rounds if n else 0 for n in nodes), orders=orders)
    left = tuple(budgets.pop(name, 0) for name in World.BUDGETS)
    assert not budgets
    start = (tuple(lists[name] for name in World.LISTS), left + (0, 1))
    return {"plans": plans, "who": who, "is_late": is_late}, start


WORLDS = {
    "a chain of four, one is killed": world_of(CHAIN4, rounds=0, kills=1),
    "a chain, one is stopped": world_of(CHAIN4, rounds=0, stops=1),
    "a tree, a pull fails": world_of(TREE4, failures=1, who={"failures": (1,)}),
    "a chain, a pull fails, answers are late": world_of(
        CHAIN3, failures=1, is_late=True, who={"failures": (1,)}),
    "two plans, one is killed": world_of(CHAIN3, OTHER_WAY, rounds=1, kills=1),
    "two plans beside a get": world_of(
        CHAIN3, OTHER_WAY, rounds=0, gets=1, evictions=1, who={"gets": (1, 2)}),
    "a chain, copies are evicted": world_of(CHAIN4, rounds=0, evictions=2),
    "two roots, both evict": world_of(
        TWO_ROOTS, whole=(0, 1), rounds=0, evictions=2, orders=(1,) * 4, who={"evictions": (0, 1)}),
    "two plans beside two gets": world_of(
        CHAIN4, LAST_FIRST, rounds=0, orders=(0, 2, 1, 1), gets=2, who={"gets": (1, 3)}),
    "a delete": world_of(CHAIN3, rounds=1, deletes=1, failures=1),
    "servers begin again": world_of(CHAIN3, rounds=1, restarts=2),
    "no room, and no patience": world_of(CHAIN4, rounds=0, shortages=1, impatient=1),
}
# All states of these only with --large.
LARGE = {
    "a chain of four, one is killed and pulls fail": world_of(CHAIN4, kills=1, failures=1),
    "a tree, one is killed and one is stopped": world_of(TREE4, rounds=0, kills=1, stops=1),
    "a delete, answers are late": world_of(CHAIN3, is_late=True, deletes=1, failures=1, evictions=1),
    "a delete in a chain of four": world_of(CHAIN4, rounds=0, deletes=1),
    "two plans, a get, and one is killed": world_of(CHAIN3, OTHER_WAY, kills=1, gets=1),
    "two roots, one is killed": world_of(
        TWO_ROOTS, whole=(0, 1), rounds=0, evictions=2, kills=1, orders=(1,) * 4,
        who={"evictions": (0, 1)}),
}

# What a broken rule is, and the world in which its harm is found.
MUTATIONS = {
    "ready outlives its transfer": (
        "what was ready in one transfer is believed in the next one",
        "a chain, a pull fails, answers are late"),
    "late answers count": (
        "an answer about a transfer that has ended counts", "a chain, a pull fails, answers are late"),
    "what is not ready is taken": ("a child takes what is not ready", "a tree, a pull fails"),
    "room first": ("a failed pull gives its room back before its windows close", "a tree, a pull fails"),
    "no pins": ("a copy that is followed may be evicted", "a chain, copies are evicted"),
    "an end is not told": ("a pull that fails does not end its transfers", "a tree, a pull fails"),
    "stopped ones are waited for": ("a forebear that is silent is not left", "a chain, one is stopped"),
    "all are followed": ("FOLLOW goes to all that the home has named", "a chain of four, one is killed"),
    "any plan is followed": ("a pull gives to followers of any plan", "two plans, one is killed"),
    "an order changes a pull": ("an order changes the plan of a pull under way", "two plans beside two gets"),
    "holders are receivers": ("each root is a receiver of the other's tree", "two roots, both evict"),
    "a dropped pull gives": ("a pull whose birth was deleted gives", "a delete"),
    "a pull outlives a drop": ("a pull that was under way seals behind the drop", "a delete"),
}
