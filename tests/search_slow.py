"""A search for data that cost fastimpl the most, relative to clean data of the same size: ``python tests/search_slow.py``.

Both stages, every level, k = 98 and 1100 reference rows, as in ``fastimpl.bench``. The families are the structures that leave
the float stages the most to do: ties of few and of many distinct rows, everything a few ulps off a threshold, chains of
outliers that hide each other, dependence by one ulp, columns with entries of every size, and mixtures. Every job has a
process of its own and a limit of processor time; what exceeds it is reported as more than that.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from fastimpl import certified
from fastimpl.covariance import stable_covariance
from fastimpl.exact import QuadraticForm, column_units, integer_rows
from fastimpl.mean import stable_mean
from fastimpl.rows import Sparse, Vectors, pairs
from fastimpl.sums import exact_sums

Rows = NDArray[np.float64]
Rng = np.random.Generator
K, REFERENCE, LAMBDA_0 = 98, 1100, 50.0


def clean(rng: Rng, n: int, d: int) -> Rows:
    return rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * np.tri(d, k=-1) / d) + 1.0


def balanced(n: int, d: int) -> Rows:
    """All sign patterns, and their opposites as partners: the paired rows have a multiple of I as Gram matrix, exactly."""
    signs = 1.0 - 2.0 * (np.arange(n // 2)[:, None] >> np.arange(d) & 1)
    return np.vstack([signs, -signs])


def jittered(x: Rows, rng: Rng, ulps: int = 3) -> Rows:
    return np.asarray(x + rng.integers(-ulps, ulps + 1, x.shape) * np.spacing(np.abs(x)))


def signs(rng: Rng, n: int, d: int) -> Rows:
    return rng.choice([-1.0, 1.0], (n, d))


def distinct_near_ties(rng: Rng, n: int, d: int) -> Rows:
    """No two rows alike, and all of them a few ulps off the same norm."""
    return jittered(balanced(n, d), rng)


def distinct_ties(rng: Rng, n: int, d: int) -> Rows:
    """Distinct integer rows of exactly one norm in an exactly round Gram matrix: orbits under shifts and changes of sign."""
    orbits: list[Rows] = []
    patterns = balanced(2 << d, d)[: 1 << d]
    while len(orbits) * d << d <= n // 2 - (d << d):
        row = rng.permutation(np.arange(1.0, d + 1))
        orbits.append(np.vstack([np.roll(row, i) * patterns for i in range(d)]))
    x = np.zeros((n, d))
    if orbits:
        rows = np.vstack(orbits)
        x[: len(rows)], x[n // 2 : n // 2 + len(rows)] = rows, -rows
    return x


def chain(rng: Rng, n: int, d: int) -> Rows:
    """A hundredth of the rows are outliers, each of which hides the next."""
    x = clean(rng, n, d)
    count = max(4, n // 100)
    x[:count] *= 2.0 ** np.linspace(3, 1000, count)[:, None]
    return x


def long_chain(rng: Rng, n: int, d: int) -> Rows:
    """A tenth of the rows, on scales of every size: whoever leaves uncovers the next."""
    x = clean(rng, n, d)
    count = n // 10
    x[rng.choice(n, count, replace=False)] *= 2.0 ** np.linspace(3, 1000, count)[:, None]
    return x


def every_scale(rng: Rng, n: int, d: int) -> Rows:
    """Rows of every size from 2^-1000 to 2^1000."""
    return rng.normal(size=(n, d)) * 2.0 ** rng.uniform(-1000, 1000, (n, 1))


def every_entry(rng: Rng, n: int, d: int) -> Rows:
    """Entries of every size within each column."""
    return rng.normal(size=(n, d)) * 2.0 ** rng.uniform(-1000, 1000, (n, d))


def some_tiny_entries(_: Rng, n: int, d: int) -> Rows:
    """Ties on the scale of 1, with rows of 2^-1000 that make every exact number long."""
    x = balanced(n, d)
    x[::50] *= 2.0**-1000
    return x


def thin(rng: Rng, n: int, d: int) -> Rows:
    """The last column is another one, but for an ulp in half of the rows."""
    x = clean(rng, n, d)
    x[:, -1] = x[:, 0] * (1 + rng.integers(0, 2, n) * 2.0**-52)
    return x


def thin_ties(_: Rng, n: int, d: int) -> Rows:
    """The same with signs: ties in a matrix that no float stage can invert."""
    return _thinned(balanced(n, d), 52)


def thin_near_ties(rng: Rng, n: int, d: int) -> Rows:
    return _thinned(distinct_near_ties(rng, n, d), 45)


def _thinned(x: Rows, digits: int) -> Rows:
    """The last column becomes another one, a little more or less of it: the same for both partners, so that pairs tell."""
    signs = np.sign(np.resize(x[: len(x) // 2, -1], len(x)))
    x[:, -1] = x[:, 0] * (1 + signs * 2.0**-digits)
    return x


def thin_chain(rng: Rng, n: int, d: int) -> Rows:
    x = thin(rng, n, d)
    count = max(4, n // 100)
    x[:count] *= 2.0 ** np.linspace(3, 500, count)[:, None]
    return x


def thinner_than_pairs(rng: Rng, n: int, d: int) -> Rows:
    """Two columns of the differences are the same to a part in 2^300: pairs of floats do not tell them apart."""
    x, m = np.zeros((n, d)), n // 2
    x[:m] = rng.normal(size=(m, d))
    x[m : 2 * m, 0], x[:m, 0] = -x[:m, 0], 2.0**300 * x[:m, -1]
    return x


def two_places(rng: Rng, n: int, d: int) -> Rows:
    """A tenth of the rows far off along one axis, with signs in the others: distances of few kinds, all a few ulps apart."""
    x = distinct_near_ties(rng, n, d)
    x[:, 0] = np.where(rng.permutation(n) < n // 10, 1.0, 0.0)
    return jittered(x, rng)


def two_places_and_tiny_ones(rng: Rng, n: int, d: int) -> Rows:
    """The same with a few rows of 2^-1000."""
    x = two_places(rng, n, d)
    x[::50] *= 2.0**-1000
    return x


def seven_apart(rng: Rng, n: int, d: int) -> Rows:
    """Corners of a cube, each paired with one six edges off, so that nobody is an outlier and each row is a few ulps off the
    threshold from each eighth reference row: those at seven edges, with 10 columns. No two rows are alike."""
    x = balanced(n, d)
    m, whole = n // 2, (n // 2) // (d << d) * (d << d)
    x[m : 2 * m] = x[:m]
    for shift in range(d):
        rows = np.arange(whole)[(np.arange(whole) >> d) % d == shift]
        x[np.ix_(m + rows, (np.arange(6) + shift) % d)] *= -1.0
    return jittered(x, rng)


def seven_apart_and_tiny_ones(rng: Rng, n: int, d: int) -> Rows:
    """The same with numbers of 2^-1000 in a few places: exact numbers of thousands of digits."""
    x = seven_apart(rng, n, d)
    x[rng.choice(n, 30, replace=False)] *= 2.0**-1000
    return x


def _on_sphere(rng: Rng, count: int, d: int) -> Rows:
    """Different points with positive whole coordinates and a sum of squares of 40009."""
    found: dict[bytes, Rows] = {}
    while len(found) < count:
        x = rng.integers(1, 100, (1 << 18, d)).astype(float)
        last = 40009 - np.sum(x[:, 1:] ** 2, axis=1)
        x[:, 0] = np.round(np.sqrt(np.maximum(last, 0.0)))
        found.update((row.tobytes(), row) for row in x[(x[:, 0] > 0) & (x[:, 0] ** 2 == last)])
    return np.array(list(found.values())[:count])


def _all_signs(d: int) -> Rows:
    return np.array(list(product([1.0, -1.0], repeat=d)))


def _within(a: Rows, b: Rows) -> Rows:
    """Pairs of points of a sphere, with all signs and all places: their differences have a Gram matrix like I."""
    return np.concatenate([_all_signs(len(a))[:, None] * np.roll([a, b], k, axis=1) for k in range(len(a))])


def _across(a: Rows, b: Rows) -> tuple[Rows, Rows]:
    """Pairs of points of two spheres, likewise; so are both together."""
    left, right = _all_signs(len(a)), _all_signs(len(b))
    left = np.concatenate([np.resize(left, (len(right), len(a))), -np.resize(left, (len(right), len(a)))])
    shifts = range(math.lcm(len(a), len(b)))
    first = np.concatenate([left * np.roll(a, k) for k in shifts])
    return first, np.concatenate([np.tile(right, (2, 1)) * np.roll(b, k) for k in shifts])


def two_spheres(rng: Rng, n: int, d: int) -> Rows:
    """Whole numbers on two spheres at right angles: distances between them are the same, and the largest; few rows are alike.

    Most rows are paired with one of the same sphere, some with one of the other; what is left over is paired with itself.
    """
    m, u = n // 2, (d - 1) // 2
    w = d - 1 - u
    counts = [9 * m // 20 // (width << width) for width in (u, w)] if 2 < u <= w < 8 else [0]
    if not min(counts):
        return signs(rng, n, d)
    points = [_on_sphere(rng, 2 * count + 1, width) for count, width in zip(counts, (u, w), strict=True)]
    x, at = np.zeros((2, m, d)), 0
    for columns, some, count, high in zip((slice(0, u), slice(u, -1)), points, counts, (100, -100), strict=True):
        for a, b in zip(some[:count], some[count : 2 * count], strict=True):
            both = _within(a, np.roll(b, 1) * np.resize([1.0, -1.0], len(b)))
            x[:, at : at + len(both), columns], x[:, at : at + len(both), -1] = both.transpose(1, 0, 2), high
            at += len(both)
    first, second = _across(points[0][-1], points[1][-1])
    for _ in range((m - at) // len(first)):
        x[0, at : at + len(first), :u], x[1, at : at + len(first), u:-1] = first, second
        x[0, at : at + len(first), -1], x[1, at : at + len(first), -1] = 100, -100
        at += len(first)
    x[:, at:] = x[0, 0]
    return x.reshape(2 * m, d)


Chain = Callable[[Fraction, int, int], list[list[float]]]
"""(Share that links must exceed, how many links, how many rows that hold them) -> rows."""


def _beside_ties(rng: Rng, n: int, d: int, columns: int, chain: Chain) -> Rows:
    """Vectors on two spheres at right angles, whose norms all are one, and in some more columns the links of a chain.

    Nothing changes for the others when links leave.
    """
    m, u = n // 2, (d - columns) // 2
    w, links, tail = d - columns - u, m // 3, columns * (m // 8)
    count = (m - links - tail) // ((d - columns) << w) if 2 < u <= w < 8 else 0
    if count < 1:
        return signs(rng, n, d)
    y, at = np.zeros((m, d)), 0
    for part, width, some in ((slice(0, u), u, count << (w - u)), (slice(u, u + w), w, count)):
        for a in _on_sphere(rng, some, width):
            turned = _within(a, a)[:, 0]
            y[at : at + len(turned), part] = turned
            at += len(turned)
    rows = np.array(chain(Fraction(1, count << w), links, tail))
    y[at : at + len(rows), u + w :] = rows
    return np.concatenate([y, np.zeros((n - m, d))])


def _smallest_above(least: Fraction) -> float:
    """A number with a square above a rational one, but for an ulp or two not more."""
    root = math.sqrt(least)
    while Fraction(root) ** 2 <= least:
        root = math.nextafter(root, math.inf)
    return root


def _chain(share: Fraction, links: int, tail: int) -> list[list[float]]:
    """Each exceeds its share of the sum of squares, its own included, as soon as those after it are gone."""
    rows, rest = [1.0] * tail, Fraction(tail)
    for _ in range(links):
        rows.append(_smallest_above(share * rest / (1 - share)))
        rest += Fraction(rows[-1]) ** 2
    return [[value] for value in rows]


def chain_beside_ties(rng: Rng, n: int, d: int) -> Rows:
    """In the last column a chain: each link exceeds the norm of the others, by an ulp or two, once those before it are gone."""
    return _beside_ties(rng, n, d, 1, _chain)


def chain_beside_others(rng: Rng, n: int, d: int) -> Rows:
    """The same where ties are few, and all others so little below that they might exceed it when a link has gone."""

    def chain(share: Fraction, links: int, tail: int) -> list[list[float]]:
        ties = int(1 / share) - 1
        return [[0.0, *row] for row in _chain(Fraction(1, ties), links, tail - ties)] + [[1.0, 0.0]] * ties

    m, y = n // 2, _beside_ties(rng, n, d, 2, chain)
    ones = np.flatnonzero(y[:m, -2] == 1.0)[:1]
    y[[0, *ones]] = y[[*ones, 0]]
    return y


Squares = tuple[Fraction, Fraction, Fraction]


def _crossed(
    x: float, share: Fraction, links: int, tail: int, others: Squares = (Fraction(0),) * 3
) -> list[list[float]]:
    """Two chains that are nearly at right angles, whose links take turns: whoever is next was a little below its share before,
    and is only just lifted above it when the link before it, of the other chain, has gone. Minus the cosine is 2 x.

    ``others`` is what else there is in these columns: sums of squares, and of products in the middle.
    """
    rows = [[1.0, 0.0], [0.0, 1.0]] * (tail // 2)
    a, b, c = tail // 2 + others[0], others[1], tail // 2 + others[2]
    for i in range(links):
        # f = (v w) [[a, b], [b, c]]^-1 (v w)^T with w = x v, or v and w the other way round, is to exceed share/(1 - share).
        turned = (1.0, x) if i % 2 else (x, 1.0)
        p, q = (Fraction(value) for value in turned)
        unit = (c * p * p - 2 * b * p * q + a * q * q) / (a * c - b * b)
        size = _smallest_above(share / (1 - share) / unit)
        row = [size * value for value in turned]  # x is a power of two
        rows.append(row)
        p, q = (Fraction(value) for value in row)
        a, b, c = a + p * p, b + p * q, c + q * q
    return rows


def crossed_chain_beside_ties(rng: Rng, n: int, d: int) -> Rows:
    """Every link has been asked about by integers, like the ties, before it exceeds the norm of the others."""
    return _beside_ties(rng, n, d, 2, partial(_crossed, 2.0**-17))


def thin_crossed_chain_beside_ties(rng: Rng, n: int, d: int) -> Rows:
    """The same forms, exactly, in columns so nearly dependent that no base of floats may outlive a single removal."""
    y = crossed_chain_beside_ties(rng, n, d)
    y[:, -1] += 2.0**14 * y[:, 0]  # links are zero there, ties whole numbers
    return y


def hidden_crossed_chain(rng: Rng, n: int, d: int) -> Rows:
    """The same in coordinates in which links and ties cancel by 300 digits, so that no product of floats knows their norms."""
    y, u = crossed_chain_beside_ties(rng, n, d), (d - 2) // 2
    old = y.copy()
    for j, i in ((0, -2), (u, -1), (-2, u + 1), (-1, 1)) if u > 2 else ():
        y[:, j] += 2.0**300 * old[:, i]
    return y


def fine_chain_beside_ties(rng: Rng, n: int, d: int, digits: int = 22) -> Rows:
    """Two crossed chains whose links a third column lifts above their share by 2^-61 of it; and columns are so dependent that
    floats see ties grow by more than that. Whoever keeps to these floats asks about half of the ties for every link.
    """
    x, u = 2.0**-28, (d - 3) // 2

    def chains(share: Fraction, links: int, tail: int) -> list[list[float]]:
        target, rows = share / (1 - share), np.tile(np.eye(3), (tail // 3, 1)).tolist()
        g = np.array([[Fraction(tail // 3 * (i == j)) for j in range(3)] for i in range(3)])
        for i in range(links):
            turned = (1.0, x) if i % 2 else (x, 1.0)
            rows.append(_tuned(g, turned, target))
            exact = [Fraction(value) for value in rows[-1]]
            g = g + np.outer(exact, exact)
        return [[float(value) for value in row] for row in rows]

    y = _beside_ties(rng, n, d, 3, chains)
    if u > 2:
        for j, i in ((-1, 0), (-2, u), (-3, 1)):
            y[:, j] += 2.0**digits * y[:, i]
    return y


def _tuned(g: NDArray[np.object_], turned: tuple[float, float], target: Fraction) -> list[float]:
    """A vector in this direction with a form in G just below the target, and a third entry that lifts it just above."""
    h = np.array([[_minor(g, i, j) for j in range(3)] for i in range(3)])
    h = h / sum(g[0, j] * h[0, j] for j in range(3))
    way = np.array([Fraction(turned[0]), Fraction(turned[1]), Fraction(0)])
    size = math.nextafter(_smallest_above(target / (way @ h @ way)), 0)
    while Fraction(size) ** 2 * (way @ h @ way) >= target:
        size = math.nextafter(size, 0)
    v = np.array([Fraction(size * turned[0]), Fraction(size * turned[1]), Fraction(0)])
    a, b, c = h[2, 2], h[2] @ v, v @ h @ v - target
    root = Fraction(math.sqrt(b * b - a * c))
    end = min(float((-b + root) / a), float((-b - root) / a), key=abs)
    while a * Fraction(end) ** 2 + 2 * b * Fraction(end) + c <= 0:
        end = math.nextafter(end, math.copysign(math.inf, end))
    return [float(v[0]), float(v[1]), end]


def _minor(g: NDArray[np.object_], i: int, j: int) -> Fraction:
    """The cofactor of a matrix of three rows."""
    a, b = [k for k in range(3) if k != i], [k for k in range(3) if k != j]
    minor: Fraction = g[a[0], b[0]] * g[a[1], b[1]] - g[a[0], b[1]] * g[a[1], b[0]]
    return minor * (-1) ** (i + j)


def tilted_chain_beside_others(rng: Rng, n: int, d: int) -> Rows:
    """All others grow more than the next link whenever a link goes, but stay below the norm of the first row, which is larger.

    They are tilted a little towards both chains, all of a sphere alike, so that they stay at right angles to these; and columns
    are so nearly dependent that bounds of floats do not show how far they are below. Whoever keeps no margins that integers
    have told asks these about most of them for every link: a quarter of an hour at 1e5 rows.
    """
    x, more, u = 2.0**-19, 2.0**-29, (d - 2) // 2
    tilts = [0.0]

    def chains(share: Fraction, links: int, tail: int) -> list[list[float]]:
        grown = (1 + Fraction(more)) ** 2 - 1
        least = (1 + grown) * share / (1 + grown * share)  # the norm of the first row
        largest = tail / 2 * (1 - float(share)) ** (-links / 2)  # sum of squares in a column
        tilts[0] = 2.0 ** math.ceil(math.log2(math.sqrt(8 * float(share) * largest) * x))
        near, far = int(1 / share) * u - (u << u), int(1 / share) * (d - 2 - u)  # rows that are tilted
        square = Fraction(tilts[0]) ** 2
        return _crossed(x, least, links, tail, (square * (near + far), square * (near - far), square * (near + far)))

    y = _beside_ties(rng, n, d, 2, chains)
    if tilts[0]:
        near, far = np.any(y[:, :u], axis=1), np.any(y[:, u:-2], axis=1)
        near[: u << u] = False  # all that have the coordinates of the first row
        y[near, -2:], y[far, -2:] = (tilts[0], tilts[0]), (tilts[0], -tilts[0])
        y[0] *= 1 + more
        y[:, -2:] += 2.0**9 * y[:, [0, u]]
    return y


Family = Callable[[Rng, int, int], Rows]
FAMILIES: tuple[Family, ...] = (
    clean, signs, distinct_ties, distinct_near_ties, chain, long_chain, every_scale, every_entry, some_tiny_entries, thin,
    thin_ties, thin_near_ties, thin_chain, two_places, two_places_and_tiny_ones, seven_apart, seven_apart_and_tiny_ones,
    two_spheres, chain_beside_ties, chain_beside_others, crossed_chain_beside_ties, thin_crossed_chain_beside_ties,
    tilted_chain_beside_others, thinner_than_pairs, hidden_crossed_chain, fine_chain_beside_ties,
)  # fmt: skip


# Thresholds -----------------------------------------------------------------------------------------------------------


def _forms(y: Rows, v: Rows) -> Rows | None:
    """v^T (sum y y^T/m)^-1 v in plain float64, if that gives numbers."""
    with np.errstate(all="ignore"):
        g = y.T @ y / len(y)
        forms = np.einsum("ij,ji->i", v, np.linalg.lstsq(g, v.T)[0]) if np.isfinite(g).all() else None
    return forms if forms is not None and np.isfinite(forms).all() else None


def tied_norm(x: Rows) -> float | None:
    """A lambda_0 at which one of the larger norms is a threshold, as nearly as float64 tells."""
    m = len(x) // 2
    y = x[:m] - x[m : 2 * m]
    forms = _forms(y, y)
    return None if forms is None else float(np.sort(forms)[-1 - m // 10])


def tied_distance(x: Rows) -> float | None:
    """A lambda_0 at which one of the larger distances is the threshold of a level at which it matters."""
    n = len(x)
    m = n // 2
    forms = _forms(x[:m] - x[m : 2 * m], x[1 : 1 + REFERENCE] - x[0])
    if forms is None:
        return None
    half = float(np.sort(forms)[-1 - K])  # = 2 Lambda_K/2, since the forms of paired rows are those of 2 Sigma
    low, high = 0.0, n / 6
    while math.nextafter(low, math.inf) < high:
        middle = (low + high) / 2
        growth = 1 - 50 * middle / (9 * n)
        low, high = (middle, high) if middle / growth**K < half else (low, middle)
    return low


def _exactly(x: Rows, one: Vectors) -> Fraction | None:
    """The form of one vector that stands to the paired rows of x as a norm or as a distance does."""
    vectors = pairs(x)
    unit = column_units(vectors, one)
    form = QuadraticForm(*exact_sums(vectors, Sparse.without(np.ones(len(vectors), dtype=bool)), unit))
    if form.is_singular:
        return None
    values, denominator = form.values(integer_rows(one, unit))
    return Fraction(len(vectors) * values[0], denominator)


def first_norm(x: Rows) -> Fraction | None:
    """The norm of the first pair, exactly: a threshold of the first level."""
    return _exactly(x, pairs(x).take(slice(1)))


def largest_distance(x: Rows) -> Fraction | None:
    """The largest distance from the first row, exactly: a threshold of the first level."""
    m = len(x) // 2
    others = x[1 :: max(1, m // REFERENCE)]
    forms = _forms(x[:m] - x[m : 2 * m], others - x[0])
    return None if forms is None else _exactly(x, Vectors((others[[np.argmax(forms)]],), (x[:1],)))


THRESHOLDS: dict[str, Callable[[Rows], float | Fraction | None]] = {
    "50": lambda _: LAMBDA_0,
    "tied norm": tied_norm,
    "tied distance": tied_distance,
    "first norm": first_norm,
    "largest distance": largest_distance,
}


# Jobs -----------------------------------------------------------------------------------------------------------------


def _work(make: Family, threshold: str, size: tuple[int, int], answer: Connection) -> None:
    """Send the seconds of both stages and who decided; None if there is no such threshold for these data."""
    n, d = size
    rng = np.random.default_rng(1)
    x = make(rng, n, d)
    lambda_0 = THRESHOLDS[threshold](x)
    if lambda_0 is None or not 1 <= lambda_0 < n / 50:
        answer.send(None)
        return
    reference = np.sort(rng.choice(n, min(REFERENCE, n // 2), replace=False)).tolist()
    with certified.audit() as counts:
        start = time.process_time()
        covariance = stable_covariance(x, lambda_0, K)
        middle = time.process_time()
        stable_mean(x, covariance, lambda_0, K, reference)
    answer.send((middle - start, time.process_time() - middle, dict(counts)))


Cost = tuple[float, float, dict[str, int]]


def cost(make: Family, threshold: str, size: tuple[int, int], limit: int) -> Cost | None:
    """Seconds of processor time of both stages, and who decided; ``limit`` and nobody if that was exceeded."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        _work(make, threshold, size, sender)

    process = multiprocessing.get_context("fork").Process(target=limited)
    process.start()
    sender.close()
    try:
        found: Cost | None = receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode not in {-signal.SIGXCPU, -signal.SIGKILL}:
            raise RuntimeError(f"{make.__name__} with {threshold} ended with {process.exitcode}") from None
        found = (float(limit), 0.0, {})
    process.join()
    return found


def search(size: tuple[int, int], limit: int, names: list[str]) -> float:
    """Print the cost of every family with every threshold; the largest ratio to clean data."""
    found = [times for _ in range(3) if (times := cost(clean, "50", size, limit)) is not None]
    base = min(times[0] + times[1] for times in found)
    worst = 0.0
    print(f"clean: {base * 1e3:.1f} ms of processor time, n = {size[0]}, d = {size[1]}, k = {K}")
    for family, threshold in product(FAMILIES, THRESHOLDS):
        times = cost(family, threshold, size, limit) if not names or family.__name__ in names else None
        if times is None:
            continue
        ratio = (times[0] + times[1]) / base
        worst = max(worst, ratio)
        seconds = f"{times[0]:8.3f} {times[1]:8.3f} s" if times[2] else f"     over {limit:5} s"
        print(f"{family.__name__:26} {threshold:16} {seconds} {ratio:9.0f} x  {times[2]}", flush=True)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--size", nargs=2, type=int, default=(100_000, 10), metavar=("N", "D"))
    parser.add_argument("--limit", type=int, default=60, help="seconds of processor time for one job")
    parser.add_argument("names", nargs="*", help="families; all of them by default")
    arguments = parser.parse_args()
    print(f"worst: {search(tuple(arguments.size), arguments.limit, arguments.names):.0f} x clean")


if __name__ == "__main__":
    main()
