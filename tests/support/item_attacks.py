"""What an adversary does with sums of item statistics: G, B, SLIST's ST and the normal equations of iALS."""

import numpy as np
from scipy.optimize import minimize

from models import ials
from models.histories import Histories
from models.symmetric import from_upper


def peeled(G):
    """Return the histories (frozensets of items) that come off a Gram matrix of whole numbers, one after the other.

    An item with one rater left shows that person's history as its row. One with two shows what both have (2) and what
    one of them has (1), and these fall into two parts when pairs that nobody has hold them apart.
    """
    R, found, tried = G.copy(), [], set()

    def take(items):
        R[np.ix_(items, items)] -= 1
        found.append(frozenset(items.tolist()))

    while True:
        left = np.diag(R)
        for i in np.flatnonzero((left == 1) | (left == 2)):
            if (i, R[i].sum()) in tried:
                continue
            tried.add((i, R[i].sum()))
            parts = _one(R, i) if left[i] == 1 else _two(R, i)
            if parts:
                for items in parts:
                    take(items)
                break
        else:
            return found


def _one(R, i):
    items = np.flatnonzero(R[i] == 1)
    return [items] if (R[np.ix_(items, items)] > 0).all() else []


def _two(R, i):
    both, some = np.flatnonzero(R[i] == 2), np.flatnonzero(R[i] == 1)
    side = _two_sides(R[np.ix_(some, some)] == 0)
    return [] if side is None else [np.append(both, some[side]), np.append(both, some[~side])]


def _two_sides(apart):
    """Return a side (n,) for each so that what is `apart` (n, n) is; None when there is no way, or more than one."""
    side = np.full(len(apart), -1)
    side[:1], stack = 0, [0] if len(apart) else []
    while stack:
        k = stack.pop()
        others = np.flatnonzero(apart[k])
        if np.any(side[others] == side[k]):
            return None
        new = others[side[others] < 0]
        side[new] = 1 - side[k]
        stack.extend(new.tolist())
    return None if np.any(side < 0) else side == 0


def cliques(G, least, seeds=100):
    """Return sets of items that all go together, from the pairs of `least` people between the rarest items.

    What goes with both items of a pair that one person has is that person's history and what others add to it; items
    that miss most of the others go, until all pairs are there.
    """
    i, j = np.nonzero(np.triu(least == G, 1))
    first = np.argsort(G[i, i] + G[j, j], kind="stable")[:seeds]
    return [_clique(least <= G, pair) for pair in zip(i[first], j[first], strict=True)]


def _clique(together, pair):
    items = np.flatnonzero(together[pair[0]] & together[pair[1]])
    apart = ~together[np.ix_(items, items)]
    alive, missing, own = np.ones(len(items), bool), apart.sum(axis=1), np.isin(items, pair)
    while True:
        most = np.where(alive & ~own, missing, -1)
        k = most.argmax()
        if most[k] <= 0:
            return frozenset(items[alive].tolist())
        alive[k] = False
        missing = missing - apart[k]


def gram_from_weights(B, least):
    """Return G (I, I) from B of EASE alone, off the diagonal; `least` is the smallest count that is not zero.

    B_ij = −P_ij / P_jj and P is symmetric, so B_ir / B_ri = P_ii / P_rr: P but for a factor. Its inverse is G + λI but
    for a factor, and that G counts people gives the factor. The diagonal less λ is G's; λ is a public parameter.
    """
    live = np.flatnonzero(B.any(axis=0))
    b = B[np.ix_(live, live)]
    r = np.abs(b).sum(axis=0).argmax()
    p = np.divide(b[:, r], b[r], out=np.ones(len(live)), where=b[r] != 0)
    H = np.linalg.inv((np.eye(len(live)) - b) * p)
    values = np.sort(np.abs(H[~np.eye(len(live), dtype=bool)]))
    unit = values[values > values[-1] * 1e-6][0] / least
    G = np.zeros_like(B)
    G[np.ix_(live, live)] = H / unit
    return G


def newcomers(D):
    """Return histories read from the difference of two G: the row of each item that one of the new people has."""
    return [frozenset(np.flatnonzero(D[i] > 0).tolist()) for i in np.flatnonzero(np.diag(D) == 1)]


def lone_orders(ST, between, unit, furthest=40):
    """Return D (I, I): how many places j comes after i in one person's history, where ST_ij says it exactly, else NaN.

    `between` (n,): what one person with the items n + 1 places apart adds to ST; `unit`: the last bit of a value.
    """
    table = {round(value / unit): n + 1 for n, value in enumerate(between[:furthest])}
    whole = np.rint(ST / unit).astype(int)
    D = np.full(ST.shape, np.nan)
    for value, places in table.items():
        D[whole == value] = places
    np.fill_diagonal(D, np.nan)
    D[~np.isnan(D) & ~np.isnan(D.T)] = np.nan
    return D


def chains(D, seeds, rng, density=0.6):
    """Return (items, places) of fragments in which at least `density` of the distances fit, grown from single pairs."""
    S, found = np.where(np.isnan(D), -D.T, D), []
    pairs = np.argwhere(D > 0)
    for i, j in rng.permutation(pairs)[:seeds]:
        more = np.flatnonzero(np.abs(S[i] - (S[i, j] + S[j])) < 0.5)
        items, place = np.append(more, [i, j]), np.append(S[i, more], [0, S[i, j]])
        fits = np.abs(S[np.ix_(items, items)] - (place[None] - place[:, None])) < 0.5
        while len(items) > 3 and fits.sum(axis=1).min() < density * (len(items) - 1):
            keep = np.arange(len(items)) != fits.sum(axis=1).argmin()
            items, place, fits = items[keep], place[keep], fits[np.ix_(keep, keep)]
        found.append((items, place))
    return found


def spans(sums, d, most):
    """Return {item: (basis (d, n), its eigenvalues (n,))} of Σ p pᵀ for items with at most `most` < d raters."""
    found, f = {}, d * (d + 1) // 2
    for item in np.flatnonzero((sums[:-1, -1] > 0) & (sums[:-1, -1] <= most)):
        values, vectors = np.linalg.eigh(from_upper(sums[item, :f], d))
        n = round(sums[item, -1])
        found[int(item)] = vectors[:, -n:], values[-n:]
    return found


def shared_raters(sums, d):
    """Return {(item, item): ±p_u (d,)} of the one person who had both of two items, from iALS's item sums (I + 1, f).

    Σ p pᵀ of n < d people spans the space of their n factors. The spaces of two items with n + m ≤ d meet in the
    factors of people that are in both, and p = s·v has s²·vᵀA⁺v = 1 for everyone that A is a sum over.
    """
    spaces = spans(sums, d, d - 1)
    found, items = {}, sorted(spaces)
    for a in items:
        U, values = spaces[a]
        for b in items[: items.index(a)]:
            W = spaces[b][0]
            if U.shape[1] + W.shape[1] > d:
                continue
            left, cosines, _ = np.linalg.svd(U.T @ W, full_matrices=False)
            if cosines[0] > 0.9999 and (len(cosines) == 1 or cosines[1] < 0.999):
                v = left[:, 0]
                found[b, a] = U @ v / np.sqrt((v**2 / values).sum())
    return found


def one_more(sums, d):
    """Return pairs of items (k, 2) of which the first had one rater more and else the same: tr ΔΣppᵀ = ‖ΔΣp‖²."""
    held = np.flatnonzero(np.rint(sums[:-1, -1]) > 0)
    row, column = np.triu_indices(d)
    trace, Σp, n = sums[held, : len(row)][:, row == column].sum(axis=1), sums[held, -d - 1 : -1], sums[held, -1]
    i, j = np.nonzero(np.rint(n[:, None] - n) == 1)
    one = ((Σp[i] - Σp[j]) ** 2).sum(axis=1)
    alike = np.abs(trace[i] - trace[j] - one) < 1e-3 * one
    return np.column_stack([held[i], held[j]])[alike]


def history_of(pair, sweeps, loss):
    """Return the items of the one person who had both of `pair`, from [(Q, item sums)] of every sweep.

    p_u solves its own normal equations for the Q that all know; they are linear in which items u had:
    Σ_i x_i (q_i(1 − q_iᵀp) − λp) = α₀QᵀQp + λα₀I·p, d equations a sweep, x within 0..1 (for ν = 1).
    """
    left, right = [], []
    kept = np.flatnonzero(np.rint(sweeps[0][1][:-1, -1]) > 0)
    for Q, sums in sweeps[1:]:  # the first Q is small, so p is
        p = shared_raters(sums[[*pair, -1]], Q.shape[1]).get((0, 1))
        if p is not None:
            p = p if p @ Q[pair[0]] > 0 else -p
            left.append((Q * (1 - Q @ p)[:, None] - loss.reg * p).T[:, kept])
            right.append(loss.α0 * (Q.T @ (Q @ p) + loss.reg * len(Q) * p))
    A, y = np.concatenate(left), np.concatenate(right)
    solved = minimize(
        lambda x: (((A @ x - y) ** 2).sum() / 2, A.T @ (A @ x - y)), np.full(len(kept), 0.1), jac=True,
        bounds=[(0, 1)] * len(kept), method="L-BFGS-B",
        options={"maxiter": 1500, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    return frozenset(kept[solved.x > 0.5].tolist())


def membership(h, item, sweep, loss):
    """Return two scores (users,) for whether each had `item`, from all their other items, and whether they had it.

    Everybody in a sum Σ p pᵀ = A has pᵀA⁺p ≤ 1, and of the others few do where hardly more than d people are in it:
    the first score is −pᵀA⁺p, p as it would be with the item. The second is the model's own, without the item.
    """
    Q, sums = sweep
    d, had = Q.shape[1], np.zeros(h.users, bool)
    had[h.user[h.item == item]] = True
    rest = h.item != item
    other = Histories(h.user[rest], h.item[rest], h.users, h.items)
    user = np.append(other.user, np.arange(h.users, dtype=np.int32))
    order = np.argsort(user, kind="stable")
    items = np.append(other.item, np.full(h.users, item, np.int32))[order]
    P = ials.user_step(Histories(user[order], items, h.users, h.items), Q, loss)
    inverse = np.linalg.pinv(from_upper(sums[item, : d * (d + 1) // 2], d))
    return -((P @ inverse) * P).sum(axis=1), ials.user_step(other, Q, loss) @ Q[item], had
