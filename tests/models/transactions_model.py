# SPDX-License-Identifier: Apache-2.0
"""Transactions over several shards of a node (docs/design/066): every schedule of small worlds.

Every process does one load or store a step, in all orders of a machine that keeps the order of stores.
Rules that were broken in drafts are in here as mutants, and must be found.
Usage: transactions_model.py [name ...]

W = (number, state): 0 open, 1 committed, 2 aborted. A key: 'o' old, 'p' pending, 'n' new (one word: the
last look of a reader is what docs/design/062 shows).
"""

import sys
sys.setrecursionlimit(10000)

def explore(init, procs, check, limit=3_000_000):
    """procs: {name: f(s, pc) -> [(pc', {updates})]}; s is a dict. Returns (states, bad trace or None)."""
    names = list(procs)
    def freeze(s): return tuple(sorted(s.items()))
    start = dict(init)
    for n in names: start.setdefault('pc_' + n, 0)
    seen, stack = {freeze(start): None}, [start]
    while stack:
        s = stack.pop(); f = freeze(s)
        moved = False
        for n in names:
            for pc, up in procs[n](s, s['pc_' + n]):
                t = dict(s); t.update(up); t['pc_' + n] = pc
                g = freeze(t); moved = True
                if g in seen: continue
                seen[g] = (f, n, pc, up)
                bad = check(t, False)
                if bad: return len(seen), (bad, trace(seen, g))
                if len(seen) > limit: return len(seen), ('LIMIT', [])
                stack.append(t)
        if not moved:
            bad = check(s, True)
            if bad: return len(seen), (bad, trace(seen, f))
    return len(seen), None

def trace(seen, g):
    out = []
    while seen[g] is not None:
        f, n, pc, up = seen[g]; out.append(f'{n}->{pc} {up}'); g = f
    return out[::-1]

# ---------------------------------------------------------------- two spaces, one transaction: x in A
# (home), y and z in B
def base(mutant='', order='xy', kills=0):
    N = 1
    def is_open(w): return w == (N, 0) if mutant == 'one_shot' else w[0] < N
    def client(s, pc):
        if pc == 0: return [(1, {'prep': 1})]
        if pc == 1 and s['pa'] == 'ok': return [(2, {'dec': 1})]
        if pc == 1 and s['pa'] == 'no': return [(9, {'told': 'no'})]
        if pc == 2 and s['da']: return [(9, {'told': s['da'], 'set': 1})]
        # the server died: kOutcome behind the whole recovery
        if pc in (1, 2) and s['recA'] and s['recB']:
            return [(9, {'told': 'yes' if s['W'] == (N, 1) else 'no'})]
        return []
    def B(s, pc):
        if s['dead']: return []
        if pc == 0 and s['prep']: return [(1, {'cnt': s['cnt'] + 1})]
        if pc == 1: return [(2, {})] if is_open(s['W']) else [(40, {'cnt': s['cnt'] - 1, 'pa': 'no'})]
        if pc == 2: return [(3, {'y': 'p'})]
        if pc == 3: return [(4, {'z': 'p'})]
        if pc == 4: return [(10, {'pa': 'ok'})]
        # kSettle, the session's end or the 10 ms: at any moment
        if pc == 10:
            if s['W'] == (N, 1): return [(20, {})]
            if s['W'] == (N, 3): return []                 # the home is in its turn: look again
            if mutant == 'settle_does_not_record': return [(30, {})]
            return [(('cas', s['W']), {})]
        if isinstance(pc, tuple):
            if s['W'] != pc[1]: return [(10, {})]
            return [(30, {'W': (N, 2)} if is_open(pc[1]) else {})]
        if pc == 20: return [(21, {'y': 'n'})]
        if pc == 21: return [(22, {'z': 'n'})]
        if pc == 30: return [(31, {'y': 'o'})]
        if pc == 31: return [(22, {'z': 'o'})]
        if pc == 22: return [(40, {'cnt': s['cnt'] - 1})]
        return []
    def A(s, pc):
        if s['dead']: return []
        if pc == 0 and s['dec']:
            if is_open(s['W']):
                return [(('d' if mutant != 'lock' else 'l', s['W']), {})]
            return [(9, {'da': 'no'})]
        if isinstance(pc, tuple) and pc[0] == 'l':
            return [(1, {'W': (N, 3)})] if s['W'] == pc[1] else [(9, {'da': 'no'})]
        if pc == 1: return [(2, {'x': 'p'})]
        if pc == 2: return [(3, {'W': (N, 1)})]
        if isinstance(pc, tuple) and pc[0] == 'd':
            return [(('e', pc[1]), {'x': 'n' if mutant == 'home_not_pending' else 'p'})]
        if isinstance(pc, tuple) and pc[0] == 'e':
            return [(3, {'W': (N, 1)})] if s['W'] == pc[1] else [(5, {})]
        if pc == 3: return [(4, {'x': 'n'})]
        if pc == 4: return [(9, {'da': 'yes'})]
        if pc == 5: return [(6, {'x': 'o'})]
        if pc == 6: return [(9, {'da': 'no'})]
        if pc == 9 and mutant == 'recycle_without_count' and s['W'] == (N, 1): return [(10, {'W': (7, 2)})]
        if pc == 9 and s['W'] == (N, 1) and s['cnt'] == 0 and s['told']: return [(10, {'W': (7, 2)})]
        return []
    def kill(s, pc):
        if s['kills'] < kills and (not s['dead'] or pc == 0):
            return [(0, {'dead': 1, 'kills': s['kills'] + 1, 'recA': 0, 'recB': 0, 'pc_RA': 0, 'pc_RB': 0})]
        return []
    def RA(s, pc):
        if not s['dead'] or s['recA']: return []
        if pc == 0: return [(1, {'x': ('n' if s['W'] == (N, 1) else 'o')} if s['x'] == 'p' else {})]
        if pc == 1:
            if mutant == 'recovery_frees_words_alone' and s['W'] == (N, 1):
                return [(2, {'W': (7, 2), 'recA': 1})]
            return [(2, {'recA': 1})]
        return []
    def RB(s, pc):
        if not s['dead'] or s['recB']: return []
        k = {0: 'y', 1: 'z'}.get(pc)
        if k: return [(pc + 1, {k: ('n' if s['W'] == (N, 1) else 'o')} if s[k] == 'p' else {})]
        return [(3, {'recB': 1})]
    def reader(s, pc):
        i, st = (pc, 'a') if isinstance(pc, int) else (pc[0], pc[1])
        if i >= len(order): return []
        k = order[i]
        def res(v): return [(i + 1, {'seen': s['seen'] + v})]
        if st == 'a': return res(s[k]) if s[k] != 'p' else [((i, 'w'), {})]
        if st == 'w': return [((i, 'n' if s['W'] == (N, 1) else 'o'), {})]
        return res(st) if s[k] == 'p' else [(i, {})]
    def check(s, end):
        if 'no' in s['seen'][0:0] or 'no' in ''.join(s['seen']): return f'reader of {order} saw {s["seen"]}'
        if end and not (s['dead'] and not (s['recA'] and s['recB'])):
            if s['told'] == 'yes' and 'o' in s['x'] + s['y'] + s['z']:
                return f'told committed: {s["x"], s["y"], s["z"]}'
            if s['told'] == 'no' and 'n' in s['x'] + s['y'] + s['z']:
                return f'told not: {s["x"], s["y"], s["z"]}'
        return None
    init = dict(W=(N, 0) if mutant == 'one_shot' else (0, 2),
                x='o', y='o', z='o', cnt=0, prep=0, pa='', dec=0, da='', set=0, told='', dead=0, kills=0,
                recA=0,
                recB=0, seen='')
    return explore(init, dict(C=client, B=B, A=A, K=kill, RA=RA, RB=RB, R=reader), check)

# ---------------------------------------------------------------- a batch of one shard beside a pending
# part of T
# T has y, z pending in B, its word commits at any moment (home's thread). Batch b in B's turn:
# conditions, then writes q.
def batch(how):
    def T(s, pc): return [(1, {'W': (1, 1)}), (1, {'W': (1, 2)})] if pc == 0 else []
    def val(s, k): return ('n' if s['W'] == (1, 1) else 'o')
    def B(s, pc):
        # loads the word once: settles what is decided, else refuses
        if how == 'refuse':
            if pc == 0: return [(3, {'cy': val(s, 'y'), 'cz': val(s, 'z')})] if s['W'][1] else [(9, {})]
        else:
            if pc == 0: return [(1, {'cy': val(s, 'y')})]
            if pc == 1: return [(3, {'cz': val(s, 'z') if how == 'two_looks' else s['cy']})]
        if pc == 3: return [(4, {'q': 'n'})]
        return []
    def R(s, pc):                                           # get x (home), then get q
        if pc == 0: return [(1, {'rx': val(s, 'x')})]
        if pc == 1: return [(2, {'rq': s['q']})]
        return []
    def check(s, end):
        if s['q'] == 'n' and s['cy'] != s['cz']: return f'one turn saw y={s["cy"]} z={s["cz"]}'
        if s['q'] == 'n' and s['cy'] == 'o' and s['rx'] == 'n' and s['rq'] == 'o':
            return 'b read y old (b < T), reader: x new (T < reader), then q old (reader < b)'
        return None
    return explore(dict(W=(1, 0), q='o', cy='', cz='', rx='', rq=''), dict(T=T, B=B, R=R), check)

# ---------------------------------------------------------------- T erases y, which is absent when the
# part is prepared; and puts x
def erase_of_absent(marks):
    def B(s, pc):
        # (present: it is pending)
        if pc == 0: return [(1, {'mark': 1 if marks else 0, 'prepared': 1})] if not s['y'] else []
        if pc == 1 and s['W'][1]: return [(2, {'mark': 0})]
        return []
    def A(s, pc): return [(1, {'W': (1, 1)})] if pc == 0 and s['prepared'] else []
    def P(s, pc):
        if pc == 0 and not s['mark']: return [(1, {'y': 1, 'acked': 1, 'before': int(s['W'][1] == 0)})]
        return []
    def check(s, end):
        if s['before'] and s['W'] == (1, 1) and s['y']:
            return 'put y acknowledged before T commits, T erased y, and y is there'
    return explore(dict(W=(1, 0), y=0, mark=0, prepared=0, acked=0, before=0), dict(B=B, A=A, P=P), check)

# ---------------------------------------------------------------- one written key at home, a condition
# (mark on y) in B
def home_alone(how):
    def B(s, pc):                                           # the demand at any moment, then a plain put of y
        if pc == 0:
            if s['W'] == (1, 1):
                return [(1, {})]
            return ([(1, {'W': (1, 2)})] if s['W'] == (0, 2) or (s['W'] == (1, 0) and how != 'lock') else [])
        if pc == 1: return [(2, {'y': 'changed', 'late': int(s['W'] == (1, 1))})]
        return []
    def A(s, pc):
        if how == 'slot_first':
            if pc == 0: return [(1, {})] if s['W'] == (0, 2) else [(9, {'told': 'no'})]
            if pc == 1: return [(2, {'x': 'n'})]
            if pc == 2:
                return [(9, {'W': (1, 1), 'told': 'yes'})] if s['W'] == (0, 2) else [(9, {'told': 'no'})]
        if how == 'word_first':                             # CAS, then the plain slot store
            if pc == 0: return [(1, {'W': (1, 1)})] if s['W'] == (0, 2) else [(9, {'told': 'no'})]
            if pc == 1: return [(9, {'x': 'n', 'told': 'yes'})]
        if how == 'lock':                                   # {N, deciding}: no client swaps that
            if pc == 0: return [(1, {'W': (1, 0)})] if s['W'] == (0, 2) else [(9, {'told': 'no'})]
            if pc == 1: return [(2, {'x': 'n'})]
            if pc == 2: return [(9, {'W': (1, 1), 'told': 'yes'})]
        return []
    def R(s, pc):                                           # get y, then get x
        if pc == 0: return [(1, {'ry': s['y']})]
        if pc == 1: return [(2, {'rx': s['x']})]
        return []
    def check(s, end):
        if s['told'] == 'no' and s['x'] == 'n': return 'told not, x new'
        if s['ry'] == 'changed' and s['rx'] == 'o' and s['x'] == 'n':
            return 'reader: y changed, then x old; later x new, on condition that y is not changed'
    return explore(dict(W=(0, 2), x='o', y='o', told='', ry='', rx='', late=0), dict(A=A, B=B, R=R), check)

# ---------------------------------------------------------------- the word continues to N+1 while a part
# of N (in C) is not settled
# how: 'per_session' (settle over a reopened session finds no part and says so), 'by_number', 'one_shot'
# (a word has one number)
def reuse(how):
    # N is committed, C's part not settled; settle over the new session
    def client(s, pc):
        if pc == 0: return [(1, {'settle': 1})]
        if pc == 1 and s['sa']: return [(2, {})] if how != 'one_shot' else [(9, {})]
        if pc == 2: return [(3, {'dec2': 1}), (3, {'demand2': 1})]
        return []
    def C(s, pc):
        out = []
        if pc == 0 and s['settle'] and not s['sa']:
            if how == 'per_session': out.append((0, {'sa': 1}))
            else: return [(5, {})]
        if pc == 0: out.append((1, {'lw': s['W']}))          # timer or the old session's end
        if pc == 1: return [(6, {'y': 'n' if s['lw'] == (1, 1) else 'o'})]
        if pc == 5: return [(6, {'y': 'n' if s['W'] == (1, 1) else 'o', 'sa': 1})]
        if pc == 6 and s['settle'] and not s['sa']: return [(6, {'sa': 1})]
        return out
    def H(s, pc):
        if pc == 0 and s['dec2']: return [(1, {'W': (2, 1)})]
        if pc == 0 and s['demand2']: return [(1, {'W': (2, 2)})]
        return []
    def check(s, end): return 'N is committed (x new), y is old' if s['y'] == 'o' else None
    return explore(
        dict(W=(1, 1), y='p', settle=0, sa=0, dec2=0, demand2=0, lw=0), dict(client=client, C=C, H=H),
        check)

# ---------------------------------------------------------------- anybody's kOutcome or kSettle of N+1
# while C's part of N is not settled
# how: 'draft' (any larger number of the range takes the word), 'final' (a committed word is overwritten
# by its home alone, parts == 0),
# 'parity' (a committed word is overwritten when no part of its number is left)
def outcome_of_next(how):
    def evil(s, pc):
        if pc == 0:
            if s['W'][1] == 1 and (how == 'final' or (how == 'parity' and s['cnt'])): return [(1, {})]
            if s['W'][0] < 2: return [(1, {'W': (2, 2)})]
        return []
    # decide of N, at any moment; then its home frees the word
    def T(s, pc):
        if pc == 0: return [(1, {'W': (1, 1), 'told': 1})] if s['W'][0] < 1 else [(9, {'told': 2})]
        if pc == 1 and s['cnt'] == 0 and s['W'] == (1, 1): return [(9, {'W': (9, 2)})]
        return []
    def C(s, pc):
        if pc == 0: return [(1, {'lw': s['W']})] if s['W'] != (0, 2) else []
        if pc == 1: return [(2, {'y': 'n' if s['lw'] == (1, 1) else 'o'})]
        if pc == 2: return [(3, {'cnt': 0})]
        return []
    def R(s, pc):                                           # two gets of y
        v = s['y'] if s['y'] != 'p' else ('n' if s['W'] == (1, 1) else 'o')
        return [(pc + 1, {'seen': s['seen'] + v})] if pc < 2 else []
    def check(s, end):
        if s['seen'] == 'no': return 'y new, then y old again: a committed value and its version go back'
        if s['told'] == 1 and s['y'] == 'o': return 'told committed (x new), y undone'
    return explore(dict(W=(0, 2), y='p', cnt=1, told=0, lw=0, seen=''), dict(evil=evil, T=T, C=C, R=R), check)

# ---------------------------------------------------------------- two kills' recovery: B serves already,
# C has not recovered
def early_prepare(gate, exact):
    # a prepare that names the old word with a larger number, and its demand
    def B(s, pc):
        if pc == 0: return [] if (gate and not s['recC']) or exact else [(1, {})]
        if pc == 1: return [(2, {'W': (5, 2)})]
        return []
    def C(s, pc):
        if pc == 0: return [(1, {'y': 'n' if s['W'] == (1, 1) else 'o'})]
        if pc == 1: return [(2, {'recC': 1})]
        return []
    def check(s, end): return 'committed before the kill, y undone' if s['y'] == 'o' else None
    return explore(dict(W=(1, 1), y='p', recC=0), dict(B=B, C=C), check)

# ---------------------------------------------------------------- read-only over B and C by marks
# T2 moves a token from y (B) to z (C): both present/absent at one moment. R: "y absent" at B, "z absent"
# at C.
# settle answers: 'always_ok', 'held' (the part was there till now)
def read_only(answer, demand=True):
    def R(s, pc):
        if pc == 0: return [(1, {'ask': 1})]
        if pc == 1 and s['gotB'] != '' and s['gotC'] != '':
            if answer == 'decide' and s['gotB'] == s['gotC'] == 'ok': return [(3, {})]
            return [(2, {'settle': 1})] if s['gotB'] == s['gotC'] == 'ok' else [(9, {})]
        if pc == 3: return [(9, {'W': 1, 'says': 1})] if s['W'] == 0 else [(9, {})]   # the swap
        if pc == 2 and s['sB'] != '' and s['sC'] != '':
            believes = answer in ('always_ok', 'look_before', 'look_twice')
            return [(9, {'says': 1 if believes or (s['sB'] == s['sC'] == 'held') else 0})]
        return []
    looks = {'look_before': 1, 'look_twice': 2}.get(answer, 0)          # at W, in prepare
    def owner(me, key):
        def f(s, pc):
            if pc == 0 and s['ask'] and s['got' + me] == '':
                if s['pend'] or (looks and s['W']): return [(9, {'got' + me: 'no'})]
                if looks: return [(5, {})]
                return [(1, {'got' + me: 'ok', 'mark' + me: 1})] if not s[key] else [(9, {'got' + me: 'no'})]
            if pc == 5:
                if s[key]: return [(9, {'got' + me: 'no'})]
                return [(6, {'mark' + me: 1})] if looks == 2 else [(1, {'got' + me: 'ok', 'mark' + me: 1})]
            if pc == 6:
                return [(1, {'got' + me: 'ok'})] if not s['W'] else [(9, {'got' + me: 'no', 'mark' + me: 0})]
            out = []
            if pc == 1 and s['settle']:
                out.append((9, {'s' + me: 'held' if s['mark' + me] else 'gone', 'mark' + me: 0}))
            if pc == 1 and demand and s['mark' + me]: out.append((1, {'mark' + me: 0, 'W': s['W'] or 2}))
            return out
        return f
    # moves the token: y -> z -> y ..., each at one moment, not over marks
    def T2(s, pc):
        if s['markB'] or s['markC'] or s['moves'] == 3: return []
        return [(0, {'y': s['z'], 'z': s['y'], 'moves': s['moves'] + 1})]
    def check(s, end): return 'both absent: never so' if s['says'] else None
    return explore(dict(y=0, z=1, ask=0, gotB='', gotC='', settle=0, sB='', sC='', markB=0, markC=0, pend=0,
                        moves=0, says=0, W=0),
                   dict(R=R, B=owner('B', 'y'), C=owner('C', 'z'), T2=T2), check)

# ---------------------------------------------------------------- read-only by watches: writes drop them
# and never wait
# T2 moves the token y <-> z: prepare at B, prepare at C (each drops the watch of its key), commit, settle
# each. Also plain puts.
def watch(drop_at, plain=False):
    def R(s, pc):
        if pc == 0: return [(1, {'ask': 1})]
        if pc == 1 and s['gotB'] != '' and s['gotC'] != '':
            return [(2, {'settle': 1})] if s['gotB'] == s['gotC'] == 'ok' else [(9, {})]
        if pc == 2 and s['sB'] != '' and s['sC'] != '':
            return [(9, {'says': int(s['sB'] == s['sC'] == 'stood')})]
        return []
    def owner(me, key):
        def f(s, pc):
            if pc == 0 and s['ask']:
                if s['pend' + me]: return [(9, {'got' + me: 'no'})]
                return [(1, {'got' + me: 'ok', 'w' + me: 1})] if not s[key] else [(9, {'got' + me: 'no'})]
            if pc == 1 and s['settle']: return [(9, {'s' + me: 'stood' if s['w' + me] else 'gone'})]
            return []
        return f
    def T2(s, pc):
        d = (lambda k: {'w' + k: 0}) if drop_at == 'prepare' else (lambda k: {})
        e = (lambda k: {'w' + k: 0}) if drop_at == 'settle' else (lambda k: {})
        if s['moves'] == 3: return []
        if pc == 0: return [(1, {'pendB': 1, **d('B')})]
        if pc == 1: return [(2, {'pendC': 1, **d('C')})]
        if pc == 2: return [(3, {'y': s['z'], 'z': s['y']}), (3, {})]
        if pc == 3: return [(4, {'pendB': 0, **e('B')})]
        if pc == 4: return [(0, {'pendC': 0, 'moves': s['moves'] + 1, **e('C')})]
    def check(s, end): return 'both absent: never so' if s['says'] else None
    return explore(dict(y=0, z=1, ask=0, gotB='', gotC='', settle=0, sB='', sC='', wB=0, wC=0, pendB=0,
                        pendC=0, moves=0, says=0),
                   dict(R=R, B=owner('B', 'y'), C=owner('C', 'z'), T2=T2), check)

# ---------------------------------------------------------------- write skew: T1 (home A) reads y, writes
# x; T2 (home B) reads x, writes y
# Part of T1 in B: mark on y. Part of T2 in A: mark on x. Demands at any moment, each turn look by look,
# the word by compare-and-swap.
def skew(mutant=''):
    def owner(mine, other, W, V, key, part, pa, dec, out):
        # W: my transaction's word (I am its home); V: the other's word, whose part (a mark on my key) I keep.
        def f(s, pc):
            o = []
            if pc == 0:
                if s['prep' + other] and s[part] == 0 and s[pa] == '':
                    o.append((0, {part: 1, pa: 'ok'}) if s[key] == 'old' and s[V][0] < 1 else (0, {pa: 'no'}))
                if s[part] == 1: o.append(('demand', {}))
                if s['dec' + mine] and s[out] == '': o.append(('check', {}))
            elif pc == 'demand':
                if s[V] == (0, 2):
                    o.append((0, {V: (1, 2), part: 2} if mutant != 'unrecorded' else {part: 2}))
                else: o.append((0, {part: 2}))
            elif pc == 'check':
                if s[part] == 1 and mutant != 'no_marks':
                    if s[V][0] < 1: o.append((0, {out: 'no', W: (1, 2) if s[W][0] < 1 else s[W]}))
                    else: o.append(('check', {part: 2}))
                else: o.append((('swap', s[W]), {}))
            elif isinstance(pc, tuple):
                if pc[1][0] < 1 and s[W] == pc[1]: o.append((0, {W: (1, 1), key: 'new', out: 'yes'}))
                elif pc[1][0] < 1: o.append(('check', {}))
                else: o.append((0, {out: 'no'}))
            return o
        return f
    def client(i, pa):
        def f(s, pc):
            if pc == 0: return [(1, {'prep' + i: 1})]
            if pc == 1 and s[pa] == 'ok': return [(2, {'dec' + i: 1})]
            return []
        return f
    def check(s, end):
        both = s['out1'] == s['out2'] == 'yes'
        return 'both committed: each read what the other wrote over' if both else None
    init = dict(
        W1=(0, 2), W2=(0, 2), x='old', y='old', part1=0, part2=0, pa1='', pa2='', prep1=0, prep2=0,
        dec1=0, dec2=0, out1='', out2='')
    A = owner('1', '2', 'W1', 'W2', 'x', 'part2', 'pa2', 'dec1', 'out1')
    B = owner('2', '1', 'W2', 'W1', 'y', 'part1', 'pa1', 'dec2', 'out2')
    return explore(init, dict(A=A, B=B, C1=client('1', 'pa1'), C2=client('2', 'pa2')), check)

RUNS = {}
for order in ('xy', 'yx', 'yz', 'zyx', 'xzy'):
    for kills in (0, 1, 2):
        RUNS[f'base {order} kills={kills}'] = (lambda o=order, k=kills: base('', o, k), False)
for m in ('lock', 'one_shot'):
    for k in (0, 1, 2): RUNS[f'variant {m} zyx kills={k}'] = (lambda m=m, k=k: base(m, 'zyx', k), False)
for m, o, k in (('settle_does_not_record', 'yx', 0), ('home_not_pending', 'xy', 0),
                ('home_not_pending', 'yz', 1),
                ('recycle_without_count', 'xy', 0), ('recovery_frees_words_alone', 'yz', 1)):
    RUNS[f'mutant {m} {o} kills={k}'] = (lambda m=m, o=o, k=k: base(m, o, k), True)
for how, bad in (('two_looks', True), ('one_look', True), ('refuse', False)):
    RUNS[f'batch {how}'] = (lambda h=how: batch(h), bad)
for marks in (0, 1): RUNS[f'erase_of_absent marks={marks}'] = (lambda m=marks: erase_of_absent(m), not marks)
for how, bad in (('slot_first', True), ('word_first', True), ('lock', False)):
    RUNS[f'home_alone {how}'] = (lambda h=how: home_alone(h), bad)
for how, bad in (('per_session', True), ('by_number', False), ('one_shot', False)):
    RUNS[f'reuse {how}'] = (lambda h=how: reuse(h), bad)
for how, bad in (('draft', True), ('parity', False), ('final', False)):
    RUNS[f'outcome_of_next {how}'] = (lambda h=how: outcome_of_next(h), bad)
for g, e, bad in ((0, 0, True), (1, 0, False), (0, 1, False)):
    RUNS[f'early_prepare gate={g} exact={e}'] = (lambda g=g, e=e: early_prepare(g, e), bad)
for a, bad in (('always_ok', True), ('look_before', True), ('look_twice', False), ('held', False),
               ('decide', False)):
    RUNS[f'read_only {a}'] = (lambda a=a: read_only(a), bad)

for d, bad in (('prepare', False), ('settle', True)):
    RUNS[f'watch dropped_at={d}'] = (lambda d=d: watch(d), bad)
for m, bad in (('', False), ('no_marks', True), ('unrecorded', True)):
    RUNS[f'skew {m}'] = (lambda m=m: skew(m), bad)

if __name__ == '__main__':
    want = sys.argv[1:]
    failed = False
    for name, (run, expected) in RUNS.items():
        if want and not any(w in name for w in want): continue
        n, bad = run()
        failed = failed or bool(bad) != expected
        mark = 'as expected' if bool(bad) == expected else '*** UNEXPECTED ***'
        print(f'{name}: {n} states, {"BROKEN: " + bad[0] if bad else "sound"} ({mark})', flush=True)
        if bad and (want or bool(bad) != expected):
            for step in bad[1]: print('     ', step)
    sys.exit(1 if failed else 0)
