# SPDX-License-Identifier: Apache-2.0
"""The small worlds of directory_model.py: how each begins, and what may happen in it."""
from directory_state import ALL, CLOSED, ENDED, FIRST, MEMBERS, Directory, World

NOTHING = (0, 0, 0)


# All have the first list, whose home is member 0; `copy` is who has the first birth, `makers` who may make
# which. All have ended their reports; the streams of `closed` have broken. `is_new`: the home's server was
# started again. `who`: who may do what the budgets are for, where not all may.
def world_of(copy=NOTHING, makers=NOTHING, homes=(0, 1), closed=(), is_new=False, who=None, **budgets):
    d = Directory(home=0)
    if not is_new:
        d.heard, d.holder = ALL, [0, copy[1], copy[2]]
        d.stream = [CLOSED if m in closed else ENDED for m in MEMBERS]
    stream = tuple(CLOSED if is_new or m == 0 else d.stream[m] for m in MEMBERS)
    left = tuple(budgets.pop(name, 0) for name in World.BUDGETS[:-1])
    assert not budgets
    sealed = 1 << FIRST if any(copy) else 0
    memory = ((1, 1, 1), copy, NOTHING, NOTHING, NOTHING)
    process = (stream, (0, 1, 1), NOTHING, (None,) * 3, NOTHING, NOTHING, ((),) * 3, ((),) * 3, NOTHING)
    return {"homes": homes, "who": who}, (memory + process, (d.frozen(), None), left + (makers, sealed, 0, 0))


WORLDS = {
    "two creators": world_of(makers=(0, 1, 2), is_new=True, breaks=1, crashes=1,
                             who={"breaks": (1,), "crashes": (0,)}),
    "two creators, another list": world_of(makers=(0, 1, 2), changes=3),
    "a creator, a get": world_of(makers=(0, 1, 0), gets=1, breaks=1, who={"gets": (2,)}),
    "gets, a member is cut off": world_of(copy=(0, 0, 1), gets=2, evictions=1, breaks=1,
                                          who={"gets": (0, 1), "breaks": (1,), "evictions": (2,)}),
    "evicted and made again": world_of(copy=(0, 1, 0), makers=(2, 0, 0), gets=1, evictions=1, breaks=1),
    "evicted and made again, the home was killed": world_of(
        copy=(0, 0, 1), makers=(2, 0, 0), is_new=True, gets=1, evictions=1, breaks=1,
        who={"gets": (1,), "evictions": (2,), "breaks": (1,)}),
    "a delete, a member is cut off": world_of(copy=(0, 0, 1), gets=1, deletes=1, breaks=1,
                                              who={"gets": (1,), "breaks": (2,)}),
    "a delete, a memory is lost": world_of(copy=(0, 0, 1), gets=1, deletes=1, losses=1,
                                           who={"gets": (1,), "losses": (1,)}),
    "made again, the home's memory is lost": world_of(
        copy=(0, 0, 1), makers=(0, 2, 0), deletes=1, closed=(2,), losses=1, who={"losses": (0,)}),
    "made again and pulled": world_of(copy=(0, 0, 1), makers=(2, 0, 0), deletes=1, gets=1,
                                      who={"gets": (1,)}),
    "made again, another list": world_of(copy=(0, 0, 1), makers=(2, 0, 0), deletes=1, changes=3),
    "evicted twice, a get": world_of(
        copy=(0, 1, 1), makers=(2, 0, 0), gets=1, evictions=2, who={"gets": (1,)}),
    "evicted twice, a get beside a report": world_of(
        copy=(0, 1, 1), makers=(2, 0, 0), closed=(1,), gets=1, evictions=2, who={"gets": (1,)}),
}

# Here broken rules are searched, too, but all states only with --large.
LARGE = {
    "gets, the home was killed": world_of(
        copy=(0, 0, 1), is_new=True, gets=2, evictions=1, breaks=1,
        who={"gets": (0, 1), "evictions": (2,), "breaks": (1,)}),
    "asks of all, a server is killed": world_of(
        copy=(0, 0, 1), is_new=True, gets=2, evictions=1, crashes=1,
        who={"gets": (0, 1), "evictions": (2,), "crashes": (2,)}),
    "a delete, another list": world_of(
        copy=(0, 0, 1), gets=1, deletes=1, losses=1, changes=3, who={"gets": (1,), "losses": (1,)}),
    "made again and pulled, the home's memory is lost": world_of(
        copy=(0, 0, 1), makers=(2, 0, 0), deletes=1, gets=1, closed=(1, 2), losses=1,
        who={"gets": (1,), "losses": (0,)}),
    "a delete, a memory is lost, and a stream": world_of(
        copy=(0, 0, 1), gets=1, deletes=1, losses=1, breaks=1,
        who={"gets": (1,), "losses": (1,), "breaks": (1,)}),
    "two creators, all failures": world_of(makers=(0, 1, 2), breaks=1, crashes=1, losses=1),
    "two creators, another list, a crash": world_of(makers=(0, 1, 2), changes=3, crashes=1),
    "a creator, a get, failures": world_of(makers=(0, 1, 0), gets=1, breaks=1, crashes=1),
    "evicted and made again, failures": world_of(
        copy=(0, 0, 1), makers=(2, 0, 0), gets=1, evictions=1, breaks=1, crashes=1),
    "evicted and made again, another list": world_of(
        copy=(0, 0, 1), makers=(0, 2, 0), gets=1, evictions=1, changes=3, crashes=1, who={"crashes": (0,)}),
    "evicted twice and made again": world_of(
        copy=(0, 0, 1), makers=(0, 2, 0), gets=2, evictions=2, breaks=1),
    "a delete, failures": world_of(copy=(0, 0, 1), gets=1, deletes=1, breaks=1, losses=1),
    "made again, failures": world_of(copy=(0, 0, 1), makers=(0, 2, 0), deletes=1, breaks=1, losses=1),
    "made again and pulled, another list": world_of(
        copy=(0, 0, 1), makers=(0, 2, 0), deletes=1, gets=1, changes=3, who={"gets": (0,)}),
    "another list, the same home": world_of(
        copy=(0, 0, 1), makers=(0, 2, 0), homes=(0, 0), deletes=1, gets=1, changes=3, who={"gets": (0,)}),
}

# What a broken rule is, and the world in which its harm is found.
MUTATIONS = {
    "no claim": ("an object is made without a claim", "two creators"),
    "incomplete grants": ("a home grants claims before it has heard from all", "two creators"),
    "claims unsaid": ("a report names no open claims", "two creators"),
    "late grant": ("a grant is used after its stream has ended", "two creators"),
    "sealed first": (
        "a report lists sealed objects before claims, and changes follow its end",
        "two creators"),
    "claims hold nothing": ("a look-up does not name who makes the object", "a creator, a get"),
    "incomplete knows": ("a home says `not_found` before it has heard from all", "gets, the home was killed"),
    "heard in turns": (
        "a home counts a report whose stream ended before all others were there",
        "evicted and made again, the home was killed"),
    "passed to none": ("a member does not say which member has its copy", "asks of all, a server is killed"),
    "ask over a restart": (
        "an ask of all continues when one of them is started again",
        "asks of all, a server is killed"),
    "nothing to come": (
        "a look-up does not make its asker one that may have the object",
        "evicted and made again"),
    "look overtakes": (
        "a look-up overtakes the stream",
        "evicted twice, a get"),
    "old words stand": (
        "a look-up during a report does not count where the home has a word from before it",
        "evicted twice, a get beside a report"),
    "asks go over": (
        "a get that asks members continues when another stream begins, which does not name it",
        "evicted and made again"),
    "nothing unsure": (
        "a birth is forgotten with its last holder, though a member is cut off",
        "evicted and made again"),
    "ask at once": (
        "a member asks all while the home believes that its stream stands",
        "evicted and made again"),
    "sure at hello": (
        "a hello says that its member has no more than the home knows",
        "gets, a member is cut off"),
    "no tombstone": ("a member that drops its copy stores no tombstone", "a delete, a memory is lost"),
    "pulls go on": ("a member acknowledges and its pulls continue", "a delete, a member is cut off"),
    "beside the stream": (
        "acknowledgements overtake what the member has published",
        "a delete, a member is cut off"),
    "forget before all": (
        "a tombstone is forgotten before all have acknowledged",
        "a delete, a member is cut off"),
    "acks of the dead": (
        "an acknowledgement counts for a memory that came later",
        "a delete, a memory is lost, and a stream"),
    "ask all": ("a member that has ended no report asks all", "a delete, a memory is lost"),
    "any list": ("members pass copies on whatever their lists", "a delete, another list"),
    "tombstones last": ("a report names tombstones last", "made again, the home's memory is lost"),
    "grant overtakes": ("a grant overtakes the word of a tombstone", "made again, the home's memory is lost"),
    "pull without tombstone": (
        "what is passed on does not bring the tombstone",
        "made again and pulled, the home's memory is lost"),
    "forget unsaid": (
        "a member that acknowledges what the home has forgotten is not told to forget",
        "made again and pulled"),
}
