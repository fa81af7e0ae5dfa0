"""How close the bounds come: for each one a measure, families that approach it, the pinned record, and a hill climber.

A ratio is left/right of a claim of a check: 1 is attained, above 1 is a refutation. No ratio is written here or anywhere
else: :func:`records` computes those of the pinned cases, in exact arithmetic, whenever it is called. The families say how
the records were found and that they go on growing with k; the climber starts from them and looks for what they miss.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import hypothesis

from proofs_checks.audit import pinned_cases_for
from proofs_checks.datasets import Matrix, Pair, Row
from proofs_checks.identifiability import Weightings
from proofs_checks.lemma import LEMMAS, Claim, HypothesisBrokenError, Lemma, Violation
from proofs_checks.target import Target, load_target
from refimpl.parameters import Lambda_ell, lambda_ell, ordered_stability_gamma

__all__ = [
    "BOUNDS",
    "Bound",
    "Reached",
    "Record",
    "climb",
    "climb_again",
    "goodness_family",
    "mean_family",
    "mean_score_family",
    "mean_weights_family",
    "order_family",
    "pipeline_score_family",
    "ratio",
    "records",
    "score_family",
    "trace_norm_family",
    "weighted_trace_family",
]

GRID = 1 << 20  # solved values are rounded down to multiples of it, and moves of a climb are multiples of it
GAMMA = "least gamma"  # how the claims of the checks that compare matrices begin

ZERO, ONE = Fraction(0), Fraction(1)
HUGE = Fraction(1 << 30)


# Measures -------------------------------------------------------------------------------------------------------------


def ratio(check: Lemma, target: Target, case: Any, claim: str = "") -> float:
    """The largest left/right of the claims of a check about one case that begin with ``claim``.

    0 where nothing is claimed.

    Raises
    ------
    Violation
        If any claim about the case is false, whatever it begins with.
    HypothesisBrokenError
        If the case does not meet the hypotheses of the check.
    """
    largest = 0.0
    for item in check(target, case):
        if not isinstance(item, Claim):
            continue
        if not item.is_true(target.rounding):
            raise Violation(check, case, item)
        if item.what.startswith(claim):
            largest = max(largest, item.tightness or 0.0)
    return largest


# Families -------------------------------------------------------------------------------------------------------------


def _below_root(square: Fraction) -> Fraction:
    return Fraction(math.isqrt(math.floor(square * GRID * GRID)), GRID)


def _column(*runs: tuple[int, Fraction]) -> Matrix:
    return tuple((value,) for count, value in runs for _ in range(count))


def goodness_family(k: int) -> Pair:
    """Lemma 25: k-1 rows 2 among rows 1, tied with lambda_2k exactly; m = 10 k lambda_0, and lambda_0 near 29/10.

    The k-1 rows are in one of the k averaged sets, and so the norm of a 2 is lambda_2k/(1 - ((k-1)^2/k) lambda_2k/m): the bound
    of REPAIRED is attained for every k >= 2, and over lambda_0 it grows to 10/7.
    """
    m = k - 1 + 4 * (7 * k + 1)
    return Pair("covariance", _column((m - k + 1, ONE), (k - 1, Fraction(2))), 0, (ONE,), Fraction(m, 10 * k), k)


def order_family(k: int, lambda_0: Fraction = Fraction(11, 10), *, late: bool | None = None) -> Pair:
    """Lemma 11, 22 (order) and Lemma 26: i* goes to 0, and the outliers, tied with lambda_2k, drop out of all levels.

    Either i* is tied with lambda_0 and there are k-1 outliers, or it is ``late``: tied with lambda_{k+1}, missing from the
    levels of the score, and so there are k-2. The second is better from k = 13 on, and reaches 160/63 lambda_0/m in the limit.
    """
    late = k >= 13 if late is None else late
    m, outliers = math.ceil(10 * k * lambda_0), k - 2 if late else k - 1
    bulk = m - outliers - 1
    star = _tied(lambda_ell(lambda_0, k, k + 1 if late else 0), m, 1, Fraction(bulk))
    outlier = _tied(lambda_ell(lambda_0, k, 2 * k), m, outliers, bulk + star**2)
    return Pair("covariance", _column((bulk, ONE), (outliers, outlier), (1, star)), m - 1, (ZERO,), lambda_0, k)


def _tied(threshold: Fraction, m: int, count: int, others: Fraction) -> Fraction:
    """The value of ``count`` equal rows whose norm is just below a threshold, beside rows whose squares sum to ``others``."""
    return _below_root(threshold * others / (m - count * threshold))


def trace_norm_family(k: int, lambda_0: Fraction = Fraction(21, 10), *, late: bool | None = None) -> Pair:
    """Lemma 11, 22 (trace): as :func:`order_family` on one axis, and i* goes to the other axis instead of 0.

    The second axis gains what the first loses by i*: in the limit 230/63 lambda_0/m. A bulk of two axes has norm 2 and a bit.
    """
    late = k >= 6 if late is None else late
    m, outliers = math.ceil(10 * k * lambda_0), k - 2 if late else k - 1
    first, second = (m - outliers - 1) // 2, (m - outliers) // 2
    threshold = lambda_ell(lambda_0, k, k + 1 if late else 0)
    star, new = (_tied(threshold, m, 1, Fraction(bulk)) for bulk in (first, second))
    outlier = _tied(lambda_ell(lambda_0, k, 2 * k), m, outliers, first + star**2)
    values = [(second, (ZERO, ONE)), (first, (ONE, ZERO)), (outliers, (outlier, ZERO)), (1, (star, ZERO))]
    rows = tuple(row for count, row in values for _ in range(count))
    return Pair("covariance", rows, m - 1, (ZERO, new), lambda_0, k)


def score_family(k: int) -> Pair:
    """Lemma 32: one row just within lambda_0; i* goes far away, is missing itself, and that row is back at level 1: 0 to 2."""
    m, lambda_0 = 20 * k, Fraction(2)
    tied = _tied(lambda_0, m, 1, Fraction(m - 1))
    return Pair("covariance", _column((m - 1, ONE), (1, tied)), 0, (HUGE,), lambda_0, k)


def pipeline_score_family(k: int) -> Pair:
    """Lemma 9: the rows of :func:`score_family` paired with zeros, among which R is: SCORE_1 and the maximum go from 0 to 2."""
    pair = score_family(k)
    rows = (*pair.rows, *_column((pair.n, ZERO)))
    return replace(pair, stage="pipeline", rows=rows, reference=tuple(range(pair.n, pair.n + 4 * k + 2)))


def mean_score_family(k: int) -> Pair:
    """Lemma 42, 57: a row of R goes far away; it is missing, and everybody else is back at level 1: 0 to 2."""
    reference = tuple(range(4 * k + 2))
    return Pair("mean", _column((20 * k, ZERO)), 0, (HUGE,), ONE, k, reference, ((ONE,),), ((ONE,),))


def _shrunk(n: int, lambda_0: Fraction) -> Fraction:
    """1 - gamma, rounded up: the smallest covariance that is gamma-close to 1."""
    return Fraction(math.ceil((1 - ordered_stability_gamma(lambda_0, n)) * GRID), GRID)


def mean_weights_family(k: int, n: int) -> Pair:
    """Lemma 39: k-2 rows enter at level 2k and, in the smaller covariance, not at all; i* goes far away.

    3k-4 counts are lost, the first k-2 of them moves off i*, and all of them are given to the others by the division by Z.
    """
    far = _below_root(2 * Lambda_ell(ONE, n, 2 * k))
    rows, reference = _column((n - k + 2, ZERO), (k - 2, far)), tuple(range(4 * k + 2))
    return Pair("mean", rows, n - k, (HUGE,), ONE, k, reference, ((ONE,),), ((_shrunk(n, ONE),),))


def mean_family(k: int, n: int) -> Pair:
    """Lemma 13, 34: R in the middle, the bulk at one end and k-1 rows at the other; i* crosses, and they drop out.

    Weight (2k-1)/(kn) moves by 2 sqrt(2 lambda_0), nearly, once n is so large that all thresholds are near lambda_0:
    32 ((2k-1)/2k)^2 lambda_0/n^2.
    """
    shrunk, size = _shrunk(n, ONE), 4 * k + 2
    near, star = _below_root(2 * shrunk), _below_root(Fraction(2))
    far = _below_root(2 * Lambda_ell(ONE, n, 2 * k))
    rows = _column((size, ZERO), (n - size - k, near), (k - 1, -far), (1, -star))
    return Pair("mean", rows, n - 1, (near,), ONE, k, tuple(range(size)), ((ONE,),), ((shrunk,),))


def weighted_trace_family(t: int) -> Weightings:
    """Lemma 24, 54 with eta = rho: i* goes from one axis to the other, and a row of the other axis gains as much weight.

    All three changes have norm lambda, nearly; gamma = 2/t and the ratio to 3/2 is 1 - gamma/3, nearly.
    """
    eta, lam = Fraction(1, t * t), Fraction(t)
    old, new = _below_root(lam / (1 - eta * lam)), _below_root(lam / (1 - 2 * eta * lam))
    rows = ((old, ZERO), (ONE, ZERO), (ZERO, ONE), (ZERO, new))
    return Weightings(rows, 0, (ZERO, new), (eta, ONE, ONE, ZERO), (eta, ONE, ONE, eta), lam)


# Bounds and records ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """One bound of a check that was searched.

    Attributes
    ----------
    check, claim
        The name of the check and how its claim begins, as :func:`ratio` takes them.
    starts
        Structured starts of a climb.
    limit
        The least upper bound known for the ratio, over all k and n; 1 where the bound is attained or reached in the limit.
    stops
        What keeps the ratio of a finite case below the limit, or that nothing does.
    built
        Cases to take the record from, instead of the pinned ones of the check.
    """

    check: str
    claim: str
    starts: Callable[[], Sequence[Pair]]
    limit: Fraction
    stops: str
    built: Callable[[], Sequence[Any]] | None = None


@dataclass(frozen=True)
class Record:
    """The closest case that is pinned: computed by :func:`records`, never typed."""

    check: str
    claim: str
    ratio: float
    case: str


def _no_pairs() -> Sequence[Pair]:
    return ()


def _orders() -> Sequence[Pair]:
    return [order_family(k, late=late) for k in (2, 4, 8) for late in (False, True)]


def _mean_weights() -> Sequence[Pair]:
    return [mean_weights_family(k, 40 * k) for k in (2, 4, 8)]


ATTAINED = Fraction(1)
BOUNDS = (
    Bound(
        "larger_score_sensitivity",
        "change of max",
        lambda: [pipeline_score_family(k) for k in (2, 3)],
        ATTAINED,
        "nothing: one row is missing and another is back one level later, from k = 2 on",
    ),
    Bound("covariance_score_sensitivity", "change of", lambda: [score_family(2)], ATTAINED, "nothing, as for Lemma 9"),
    Bound("mean_score_sensitivity", "change of", lambda: [mean_score_family(2)], ATTAINED, "nothing, as for Lemma 9"),
    Bound(
        "covariances_are_close_in_order",
        GAMMA,
        _orders,
        Fraction(160, 63) / Fraction(25, 9),
        "the constant: E11's is 160/63 for 25/9; and 1/k: at most k-1 rows change off i*, or k-2 if i* enters late",
    ),
    Bound(
        "covariances_are_close_in_order",
        GAMMA,
        _no_pairs,
        Fraction(160, 63) / Fraction(25, 9),
        "the same; gamma is 5.003 lambda_0/n from k = 92 on, and 320/63 = 5.079 lambda_0/n in the limit",
        lambda: [order_family(100)],
    ),
    Bound(
        "covariances_are_close_in_trace_norm",
        "trace norm",
        lambda: [trace_norm_family(k, late=late) for k in (2, 4, 8) for late in (False, True)],
        Fraction(230, 63) / Fraction(25, 6),
        "the constant: E11's is 230/63 for 25/6; and 1/k, as for the order",
    ),
    Bound(
        "covariance_weights_are_good",
        "largest squared norm",
        lambda: [goodness_family(k) for k in (2, 5)],
        ATTAINED,
        "nothing: k-1 rows tied with lambda_2k, for every k >= 2",
    ),
    Bound(
        "covariance_weights_are_stable",
        "l1 change",
        _orders,
        ATTAINED,
        "1/k: at most k-1 rows change off i*, by 1/(km) each",
    ),
    Bound("covariance_weights_are_stable", "largest change", _orders, ATTAINED, "nothing"),
    Bound("covariance_weights_are_stable", "the weight of i*", _orders, ATTAINED, "nothing: a row of S_{k+1}"),
    Bound(
        "mean_weights_are_stable",
        "l1 change",
        _mean_weights,
        ATTAINED,
        "4/(3k): 3k-4 counts change where i* leaves, which costs one of the k-1 rows; fewer where it stays",
    ),
    Bound("mean_weights_are_stable", "the weight of i*", _mean_weights, ATTAINED, "1/n: Z >= k(n-k+1) if SCORE < k"),
    Bound(
        "mean_is_stable",
        "squared Mahalanobis move",
        lambda: [mean_family(k, size * k) for k in (2, 4, 8) for size in (20, 40)],
        ATTAINED,
        "1/k: weight (2k-1)/(kn) moves; and k/n: the bulk is within lambda_0 where the bound has Lambda_2k/(1-gamma)",
    ),
    Bound("weighted_covariances_are_close_in_order", GAMMA, _no_pairs, ATTAINED, "nothing: rho = 0, i* goes to 0"),
    Bound("weighted_covariances_are_close_in_trace_norm", "trace norm", _no_pairs, ATTAINED, "gamma > 0 (eta > rho)"),
    Bound(
        "weighted_covariances_are_close_in_trace_norm",
        "trace norm",
        _no_pairs,
        ATTAINED,
        "gamma/3 (eta = rho)",
        lambda: [weighted_trace_family(100)],
    ),
    Bound("weighted_covariances_of_one_data_set_are_close", "trace norm", _no_pairs, ATTAINED, "nothing"),
    Bound("means_of_close_cores_are_close", "", _no_pairs, ATTAINED, "nothing: all weight crosses"),
    Bound("means_of_close_cores_of_adjacent_data_are_close", "", _no_pairs, ATTAINED, "nothing: i* crosses alone"),
    Bound("good_subsets_survive_a_removal", "", _no_pairs, ATTAINED, "nothing: two equal rows"),
)
"""Every bound that is searched, in the order of the paper's statements."""


def records(target: Target | None = None) -> list[Record]:
    """The largest ratio of each bound over its pinned cases, computed now; refimpl unless another target is given.

    Returns
    -------
    list of Record
        One for each of :data:`BOUNDS`, in that order. Pinned pairs are named by their id, other cases by their place.
    """
    target = target or load_target("refimpl")
    return [max(_ratios(bound, target), key=lambda record: record.ratio) for bound in BOUNDS]


def _ratios(bound: Bound, target: Target) -> Iterator[Record]:
    check = LEMMAS[bound.check]
    for place, case in enumerate(bound.built() if bound.built else pinned_cases_for(check, target)):
        name = case.label if isinstance(case, Pair) else f"{'built' if bound.built else 'example'} {place + 1}"
        yield Record(bound.check, bound.claim, ratio(check, target, case, bound.claim), name)


# The climber ----------------------------------------------------------------------------------------------------------


def _on_grid(value: Fraction) -> Fraction:
    return Fraction(round(value * GRID), GRID)


def _blocks(pair: Pair) -> list[range]:
    """Runs of equal rows, cut where the reference set begins or ends."""
    inside = set(pair.reference)
    cuts = [i for i in range(1, pair.n) if pair.rows[i] != pair.rows[i - 1] or (i in inside) != (i - 1 in inside)]
    return [range(a, b) for a, b in zip([0, *cuts], [*cuts, pair.n], strict=True)]


def _block(pair: Pair, rng: random.Random) -> range:
    """A run, or one row of it: the first, the last, or that of i*."""
    block = rng.choice(_blocks(pair))
    one = rng.choice([block[:1], block[-1:], range(pair.index, pair.index + 1)])
    return rng.choice([block, block, one])


def _with_rows(pair: Pair, block: range, change: Callable[[Row], Row]) -> Pair:
    return replace(pair, rows=tuple(change(row) if i in block else row for i, row in enumerate(pair.rows)))


def _nudged(row: Row, rng: random.Random) -> Row:
    place, step = rng.randrange(len(row)), Fraction(rng.choice([-1, 1]), 1 << rng.randrange(21))
    return tuple(v + step if j == place else v for j, v in enumerate(row))


def _move_value(pair: Pair, rng: random.Random) -> Pair:
    moved = _nudged(pair.rows[(block := _block(pair, rng))[0]], rng)
    return _with_rows(pair, block, lambda _row: moved)


def _move_star(pair: Pair, rng: random.Random) -> Pair:
    """The new row: nudged, zero, or that of another row; or another row becomes i*."""
    other = rng.choice(_blocks(pair))[0]
    new = rng.choice([_nudged(pair.row, rng), _nudged(pair.row, rng), (ZERO,) * pair.d, pair.rows[other]])
    return rng.choice([replace(pair, row=new), replace(pair, row=new), replace(pair, index=other)])


def _move_group(pair: Pair, rng: random.Random) -> Pair:
    row, block = pair.rows[rng.choice(_blocks(pair))[0]], _block(pair, rng)
    return _with_rows(pair, block[: rng.choice([1, 1, 2])], lambda _row: row)


def _move_level(pair: Pair, rng: random.Random) -> Pair:
    """Rows grow or shrink as the thresholds do from one level to the next, or several."""
    step = (1 - Fraction(1, 10 * pair.k)) ** rng.choice([-3, -1, 1, 3])
    factor = _below_root(step)
    return _with_rows(pair, _block(pair, rng), lambda row: tuple(_on_grid(v * factor) for v in row))


def _move_tie(pair: Pair, rng: random.Random) -> Pair:
    """Rows go to just within the threshold of a level, along one axis: of the norms, or of the distances to the first of R."""
    block, place = _block(pair, rng), rng.randrange(pair.d)
    level = rng.choice([0, pair.k, pair.k + 1, 2 * pair.k, rng.randrange(pair.levels)])
    if pair.covariance is None:
        threshold = lambda_ell(pair.lambda_0, pair.k, level)
        others = sum((row[place] ** 2 for i, row in enumerate(pair.rows) if i not in block), ZERO)
        if pair.n <= len(block) * threshold:
            return pair
        value = _tied(threshold, pair.n, len(block), others)
    elif ordered_stability_gamma(pair.lambda_0, pair.n) >= 1:
        return pair
    else:
        radius = _below_root(2 * Lambda_ell(pair.lambda_0, pair.n, level) * pair.covariance[place][place])
        value = pair.rows[pair.reference[0]][place] + rng.choice([-1, 1]) * radius
    return _with_rows(pair, block, lambda row: (*row[:place], value, *row[place + 1 :]))


def _resized(pair: Pair, n: int) -> Pair:
    """The pair with n rows: rows of its longest run come or go, and i* and the reference set keep theirs."""
    longest = max(_blocks(pair), key=len)
    here, more = longest[-1] + (pair.index != longest[-1]), n - pair.n
    if more >= 0:
        rows = (*pair.rows[:here], *[pair.rows[longest[0]]] * more, *pair.rows[here:])
        shift = [i + more if i >= here else i for i in (pair.index, *pair.reference)]
        return replace(pair, rows=rows, index=shift[0], reference=tuple(shift[1:]))
    gone = set([i for i in longest if i != pair.index][more:])
    kept = {old: new for new, old in enumerate(i for i in range(pair.n) if i not in gone)}
    reference = tuple(kept[i] for i in pair.reference if i in kept)
    return replace(pair, rows=tuple(pair.rows[i] for i in kept), index=kept[pair.index], reference=reference)


def _least_n(pair: Pair) -> int:
    """The size hypothesis of the stage, met with no row to spare."""
    half = math.ceil(10 * pair.k * pair.lambda_0)
    return {"covariance": half, "mean": math.ceil(20 * pair.k * pair.lambda_0), "pipeline": 2 * half}[pair.stage]


def _move_size(pair: Pair, rng: random.Random) -> Pair:
    return _resized(pair, max(2, pair.n + rng.choice([-5, -1, 1, 5, pair.n // 10])))


def _move_k(pair: Pair, rng: random.Random) -> Pair:
    """One more or one less; the reference set follows to 4k+2 rows where there is one, n keeps its margin."""
    k = max(1, pair.k + rng.choice([-1, 1]))
    moved = replace(pair, k=k)
    moved = _resized(moved, _least_n(moved) + max(0, pair.n - _least_n(pair)))
    if not pair.reference:
        return moved
    ordered = [*pair.reference, *(i for i in range(moved.n) if i not in set(pair.reference))]
    return replace(moved, reference=tuple(sorted(i for i in ordered[: 4 * k + 2] if i < moved.n)))


def _move_lambda(pair: Pair, rng: random.Random) -> Pair:
    step = Fraction(rng.choice([-1, 1]), rng.choice([2, 10, 40]))
    moved = replace(pair, lambda_0=max(Fraction(1, 10), pair.lambda_0 + step))
    return _resized(moved, _least_n(moved))


def _move_covariance(pair: Pair, rng: random.Random) -> Pair:
    """The second covariance: a multiple of the first, at most gamma away; the smallest such one half of the time."""
    if pair.covariance is None:
        return _move_value(pair, rng)
    least = _shrunk(pair.n, pair.lambda_0)
    factor = rng.choice([least, least, _on_grid((1 + least) / 2), ONE])
    return replace(pair, covariance_prime=tuple(tuple(_on_grid(v * factor) for v in r) for r in pair.covariance))


MOVES = (
    *(_move_value, _move_value, _move_star, _move_group, _move_group, _move_level, _move_tie),
    *(_move_size, _move_k, _move_lambda, _move_covariance),
)


class Reached(NamedTuple):
    """Where a climb ended."""

    ratio: float
    case: Pair


def climb(
    check: Lemma,
    target: Target,
    start: Pair,
    steps: int,
    seed: int,
    *,
    claim: str = "",
    most_rows: int = 240,
    most_k: int = 10,
) -> Reached:
    """Change a pair a little again and again, and keep what is no less tight. Deterministic for a seed.

    Parameters
    ----------
    check, target, claim
        What is climbed on, as :func:`ratio` takes it.
    start
        Where to start; it must meet the hypotheses.
    steps
        How many changes are tried, each of one to three moves.
    most_rows, most_k
        The size of the cases that are tried.

    Raises
    ------
    Violation
        If a case refutes the check.
    """
    rng, best = random.Random(seed), Reached(ratio(check, target, start, claim), start)
    for _ in range(steps):
        case = best.case
        for _ in range(rng.choice([1, 1, 2, 3])):
            case = rng.choice(MOVES)(case, rng)
        if case.n > most_rows or case.k > most_k or case == best.case:
            continue
        try:
            found = ratio(check, target, case, claim)
        except HypothesisBrokenError:  # a move may well leave the hypotheses: it is not made then
            continue
        if found >= best.ratio:
            best = Reached(found, case)
    return best


def _drawn(check: Lemma, count: int, seed: int) -> list[Pair]:
    """The first cases of the check's own strategy for a seed."""
    assert check.cases is not None, "a bound that is climbed on has a strategy"
    found: list[Pair] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=check.cases())
    def draw(case: Pair) -> None:
        found.append(case)

    draw()
    return found


def climb_again(
    target: Target, seconds: float, seed: int = 0, *, steps: int = 200, bounds: Sequence[Bound] = BOUNDS
) -> dict[tuple[str, str], Reached]:
    """Climb on every bound that has starts, in turn, from them and from drawn pairs, until the time is over.

    Each bound is climbed on once at least, whatever the time.

    Returns
    -------
    dict
        The best case of each bound, by its check and claim.

    Raises
    ------
    Violation
        If a case refutes a check: the only way in which a climb can fail.
    """
    climbed = [bound for bound in bounds if bound.starts()]
    best: dict[tuple[str, str], Reached] = {}
    end = time.monotonic() + seconds
    for round_ in itertools.count():
        for bound in climbed:
            key, check = (bound.check, bound.claim), LEMMAS[bound.check]
            if key in best and time.monotonic() > end:
                return best
            starts = [*bound.starts(), *_drawn(check, 4, seed + round_)]
            start = starts[(seed + round_) % len(starts)]
            reached = climb(check, target, start, steps, seed + round_, claim=bound.claim)
            best[key] = max(reached, best.get(key, reached), key=lambda end: end.ratio)
    raise AssertionError("the rounds do not end by themselves")
