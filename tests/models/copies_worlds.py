# SPDX-License-Identifier: Apache-2.0
"""The small worlds of copies_model.py: how each begins, and what may happen in it."""
from copies_state import CLOSED, CURRENT, NONE, Home, World, word

ONE = word(1, 1)
TWO = word(1, 2)


# `copy`: what each member has. `is_new`: no stream stands yet. `homes`: of each list; `who`: which members
# may do what the budgets are for, where not all may; `values`: the numbers that are wished; `slots`: how many
# orders to a member may be under way, which arrive in any order.
def world_of(copy, homes=(0,), is_new=False, who=None, values=(1, 2, 3), slots=1, **budgets):
    lists = {name: (0,) * 3 for name in World.LISTS}
    lists.update(copy=copy, version=(1,) * 3, pull=(NONE,) * 3, up=((),) * 3, down=((),) * 3, bind=((),) * 3,
                 taken=(NONE,) * 3)
    left = tuple(budgets.pop(name, 0) for name in World.BUDGETS)
    assert not budgets
    home = Home()
    home.wish = max(copy[0], 0)
    if not is_new:
        lists["stream"] = (CLOSED, CURRENT, CURRENT)
        home.seen, home.said, home.wish = [CLOSED, CURRENT, CURRENT], [NONE, *copy[1:]], max(copy)
    start = (tuple(lists[name] for name in World.LISTS), left + (0,) * len(World.FACTS),
             (home.frozen(),) + tuple(Home().frozen() for _ in homes[1:]))
    return {"homes": homes, "who": who, "values": values, "slots": slots}, start


WORLDS = {
    "releases, a stream breaks": world_of((ONE, ONE, ONE), breaks=1, releases=3, who={"breaks": (1, 2)}),
    "releases, a memory is lost": world_of(
        (TWO, TWO, TWO), losses=1, releases=3, who={"losses": (2,), "releases": (0, 1)}),
    "a put's wish, a get, and the home is killed": world_of(
        (NONE, TWO, NONE), is_new=True, crashes=1, gets=1, releases=2,
        who={"crashes": (0,), "gets": (2,), "releases": (1, 2)}),
    "more are wished, and the home is killed": world_of(
        (NONE, ONE, ONE), crashes=1, sets=1, releases=1, values=(2,),
        who={"crashes": (0,), "releases": (1,)}),
    "two wishes, and the home is killed": world_of(
        (NONE, ONE, ONE), crashes=1, sets=2, values=(2, 3), who={"crashes": (0,)}),
    "no copies are wished": world_of(
        (NONE, TWO, TWO), crashes=1, sets=1, releases=1, values=(0,),
        who={"crashes": (0,), "releases": (1,)}),
    "orders arrive in any order": world_of(
        (NONE, 0, ONE), crashes=1, sets=1, values=(2,), slots=2, who={"crashes": (0,)}),
    "a delete, servers are killed": world_of(
        (NONE, TWO, NONE), deletes=1, crashes=1, releases=1, who={"crashes": (1, 2), "releases": (1,)}),
    "another list": world_of((ONE, ONE, ONE), homes=(0, 1), changes=3, releases=2),
    "another list, and more are wished": world_of(
        (ONE, NONE, ONE), homes=(0, 1), changes=3, sets=1, values=(2,)),
}

# Here broken rules are searched, too, but all states only with --large.
LARGE = {
    "more are wished beside releases": world_of(
        (NONE, ONE, ONE), crashes=1, sets=1, releases=2, values=(2,),
        who={"crashes": (0,), "releases": (1,)}),
    "no copies are wished beside releases": world_of(
        (NONE, TWO, TWO), crashes=1, sets=1, releases=2, values=(0,),
        who={"crashes": (0,), "releases": (1, 2)}),
    "orders arrive in any order, a memory is lost": world_of(
        (NONE, 0, ONE), crashes=1, losses=1, sets=1, values=(2,), slots=2,
        who={"crashes": (0,), "losses": (2,)}),
    "two wishes, one copy": world_of(
        (NONE, ONE, NONE), crashes=1, sets=2, values=(2, 3), who={"crashes": (0,)}),
    "another list beside releases": world_of((ONE, ONE, ONE), homes=(0, 1), changes=3, releases=3),
    "another list, more are wished beside a release": world_of(
        (ONE, NONE, ONE), homes=(0, 1), changes=3, releases=1, sets=1, values=(2,), who={"releases": (2,)}),
    "another list, releases of two": world_of((TWO, TWO, TWO), homes=(0, 1), changes=3, releases=3),
    "releases, a stream breaks and a memory is lost": world_of(
        (TWO, TWO, TWO), breaks=1, losses=1, releases=2, who={"breaks": (1,), "losses": (2,)}),
    "the home's memory is lost": world_of(
        (ONE, ONE, ONE), losses=1, releases=2, sets=1, values=(2,), who={"losses": (0,)}),
}

# What a broken rule is, and the world in which its harm is found.
MUTATIONS = {
    "an order cancels nothing": (
        "a yes that an order has overtaken is followed", "releases, a memory is lost"),
    "a late yes": ("a yes counts behind the end of its stream", "releases, a stream breaks"),
    "answers without numbers": ("a yes answers a later release", "releases, a memory is lost"),
    "a yes changes nothing": (
        "the home counts a copy of which it has said yes", "releases, a memory is lost"),
    "away ones count": (
        "holders without a stream are counted for a release", "releases, a memory is lost"),
    "old words count": (
        "a holder that has not said the wish is counted", "more are wished, and the home is killed"),
    "the home's word stays": (
        "a home does not take a greater word from a report", "more are wished, and the home is killed"),
    "any word is taken": ("a member takes a lower word", "orders arrive in any order, a memory is lost"),
    "versions alone": ("of two words of one version none is greater", "two wishes, and the home is killed"),
    "the answer counts": ("the answer to an order counts", "releases, a memory is lost"),
    "old words stay": ("a holder that says a lower word is not told the wish", "no copies are wished"),
    "a pull outlives a drop": (
        "a pull that was ordered ends behind the drop", "a delete, servers are killed"),
    "a yes of the list before": ("a yes counts under the next list", "another list"),
}
