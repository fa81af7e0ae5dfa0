"""The algorithms a second time, from the pseudocode, on fractions.Fraction alone: slow, short, and sharing nothing.

A norm in a singular matrix is None, for infinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

Row = Sequence[Fraction]
Matrix = list[list[Fraction]]


def solve(matrix: Sequence[Row], vector: Row) -> list[Fraction] | None:
    """Gauss and Jordan: the solution of a square system, or None if the matrix is singular."""
    table = [[*row, value] for row, value in zip(matrix, vector, strict=True)]
    d = len(table)
    for j in range(d):
        pivot = next((i for i in range(j, d) if table[i][j] != 0), None)
        if pivot is None:
            return None
        table[j], table[pivot] = table[pivot], table[j]
        table[j] = [value / table[j][j] for value in table[j]]
        for i in range(d):
            if i != j:
                table[i] = [a - table[i][j] * b for a, b in zip(table[i], table[j], strict=True)]
    return [row[-1] for row in table]


def inverse(matrix: Sequence[Row]) -> Matrix | None:
    d = len(matrix)
    columns = [solve(matrix, [Fraction(int(i == j)) for i in range(d)]) for j in range(d)]
    solved = [column for column in columns if column is not None]
    return [[solved[j][i] for j in range(d)] for i in range(d)] if len(solved) == d else None


def quadratic(vector: Row, matrix: Sequence[Row]) -> Fraction:
    """v^T A v."""
    d = range(len(vector))
    return sum((vector[a] * matrix[a][b] * vector[b] for a in d for b in d), Fraction(0))


def moment(rows: Sequence[Row], weights: Iterable[Fraction]) -> Matrix:
    """sum_i w_i y_i y_i^T."""
    d = range(len(rows[0]))
    pairs = list(zip(rows, weights, strict=True))
    return [[sum((w * y[a] * y[b] for y, w in pairs), Fraction(0)) for b in d] for a in d]


def norms(rows: Sequence[Row], subset: Iterable[int]) -> dict[int, Fraction] | None:
    """Squared norms of the rows of a subset in its own second moment, which divides by the number of all rows."""
    members, m = sorted(subset), len(rows)
    inverted = inverse(
        moment([rows[i] for i in members] or [[Fraction(0)] * len(rows[0])], [Fraction(1, m)] * max(1, len(members)))
    )
    return None if inverted is None else {i: quadratic(rows[i], inverted) for i in members}


def is_good(rows: Sequence[Row], subset: Iterable[int], lam: Fraction) -> bool:
    found = norms(rows, subset)
    return found is not None and all(norm <= lam for norm in found.values())


def largest_by_search(rows: Sequence[Row], lam: Fraction) -> frozenset[int]:
    """The largest good subset by looking at all subsets, or the empty set."""
    m = len(rows)
    for size in range(m, 0, -1):
        good = [frozenset(s) for s in combinations(range(m), size) if is_good(rows, s, lam)]
        if good:
            (largest,) = good  # Lemma 27: it is unique
            return largest
    return frozenset()


def largest_good_subset(rows: Sequence[Row], lam: Fraction) -> frozenset[int]:
    """As printed: remove all outliers at once, until there are none."""
    subset = frozenset(range(len(rows)))
    while subset:
        found = norms(rows, subset)
        kept = frozenset(i for i, norm in found.items() if norm <= lam) if found is not None else frozenset()
        if kept == subset:
            break
        subset = kept
    return subset


@dataclass(frozen=True)
class Stage:
    """What one stage computes."""

    score: int
    sets: list[frozenset[int]]
    weights: list[Fraction]
    estimate: list[Fraction] | Matrix

    @property
    def sizes(self) -> list[int]:
        return [len(s) for s in self.sets]

    @property
    def entry_level(self) -> list[int]:
        return [sum(i not in s for s in self.sets) for i in range(len(self.weights))]


def second_moment(y: Sequence[Row], lambda_0: Fraction, k: int) -> Stage:
    m = len(y)
    sets = [largest_good_subset(y, lambda_0 / (1 - Fraction(ell, 10 * k))) for ell in range(2 * k + 1)]
    score = min(k, *(m - len(sets[ell]) + ell for ell in range(k + 1)))
    weights = [Fraction(sum(i in sets[ell] for ell in range(k + 1, 2 * k + 1)), k * m) for i in range(m)]
    return Stage(score, sets, weights, moment(y, weights))


def covariance(x: Sequence[Row], lambda_0: Fraction, k: int) -> Stage:
    m = len(x) // 2
    y = [[a - b for a, b in zip(x[i], x[i + m], strict=True)] for i in range(m)]
    stage = second_moment(y, lambda_0, k)
    halved = [[value / 2 for value in row] for row in moment(y, stage.weights)]
    return Stage(stage.score, stage.sets, stage.weights, halved)


def core(x: Sequence[Row], sigma: Sequence[Row], lam: Fraction, tau: int, reference: Iterable[int]) -> frozenset[int]:
    inverted, indices = inverse(sigma), list(reference)

    def degree(i: int) -> int:
        if inverted is None:
            return 0
        return sum(quadratic([a - b for a, b in zip(x[i], x[j], strict=True)], inverted) <= 2 * lam for j in indices)

    return frozenset(i for i in range(len(x)) if degree(i) >= tau)


def mean(x: Sequence[Row], sigma: Sequence[Row], lambda_0: Fraction, k: int, reference: Sequence[int]) -> Stage:
    n, d = len(x), range(len(x[0]))
    gamma = Fraction(50, 9) * lambda_0 / n
    if inverse(sigma) is None:
        return Stage(k, [frozenset()] * (2 * k + 1), [Fraction(0)] * n, [Fraction(0) for _ in d])
    sets = [core(x, sigma, lambda_0 / (1 - gamma) ** ell, len(reference) - ell, reference) for ell in range(2 * k + 1)]
    score = min(k, *(n - len(sets[ell]) + ell for ell in range(k + 1)))
    counts = [sum(i in sets[ell] for ell in range(k + 1, 2 * k + 1)) for i in range(n)]
    total = sum(counts)
    weights = [Fraction(c, total) if total else Fraction(0) for c in counts]
    return Stage(
        score, sets, weights, [sum((w * row[a] for w, row in zip(weights, x, strict=True)), Fraction(0)) for a in d]
    )
