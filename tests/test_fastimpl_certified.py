"""The float filter's bounds hold: compared with exact values, where rounding is at its worst, and near ties of every size."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from statements import plain

import fastimpl
import refimpl
from fastimpl import certified
from fastimpl.exact import QuadraticForm, column_units, gram, integer_rows
from fastimpl.grams import BlockGrams, usual_shift
from fastimpl.rows import Centred, Sparse, Vectors, pairs
from refimpl.linalg import exact_matrix, inverse_or_none, mahalanobis_squared, to_fraction

Rows = NDArray[np.float64]


def forms(vectors: Vectors, members: NDArray[np.int64]) -> tuple[QuadraticForm, list[Fraction]]:
    unit = column_units(vectors)
    form = QuadraticForm(gram(vectors.take(members), unit), unit)
    numerators, denominator = form.values(integer_rows(vectors, unit))
    return form, [Fraction(value, denominator) for value in numerators]


def whitening_of(vectors: Vectors, members: NDArray[np.int64]) -> certified.Whitening | None:
    alive = np.zeros(len(vectors), dtype=bool)
    alive[members] = True
    with np.errstate(all="ignore"):
        return certified.float_whitening(BlockGrams(vectors, usual_shift(vectors)), Sparse.without(alive))


def assert_enclosed(bounds: certified.Bounds, exact: list[Fraction], width: float) -> None:
    for lower, upper, value in zip(bounds.lower.tolist(), bounds.upper.tolist(), exact, strict=True):
        assert lower <= value
        assert upper == np.inf or value <= Fraction(upper)
        assert width == np.inf or upper - lower <= width * float(value) + 1e-200


def aligned(rng: np.random.Generator) -> Rows:
    """Sums that round the same way again and again: equal entries with full mantissas, and a small column."""
    x = np.full((6000, 2), 1 + 2.0**-52) * [1.0, 1 / 3]
    x[::2, 1] *= -1
    return x + rng.integers(0, 2, (6000, 1)) * 2.0**-52


def correlated(rng: np.random.Generator) -> Rows:
    return rng.normal(size=(400, 4)) @ (np.ones((4, 4)) + 1e-2 * rng.normal(size=(4, 4)))


def far_from_the_rest(rng: np.random.Generator) -> Rows:
    x = rng.normal(size=(400, 3))
    x[300:] *= 1e12
    return x


@pytest.mark.parametrize("make", [aligned, correlated, far_from_the_rest])
def test_float_whitening_encloses_every_form(make: Callable[[np.random.Generator], Rows]) -> None:
    x = make(np.random.default_rng(0))
    vectors, members = pairs(np.vstack([x, 0.1 * x[::-1]])), np.arange(min(300, len(x)))
    members = np.arange(len(x)) if make is aligned else members
    whitening = whitening_of(vectors, members)
    assert whitening is not None
    _, exact = forms(vectors, members)
    z, error = certified.whiten(vectors, whitening)
    assert_enclosed(certified.norm_bounds(z, error, whitening.epsilon), exact, 1e-6)


def test_exact_whitening_encloses_forms_of_a_graded_matrix() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 3))
    x[0], x[1], x[2] = 1e300, [-1e100, 2e100, 3e100], [0.0, 0.0, 5e-324]
    vectors, members = Vectors((x,)), np.arange(60)
    form, exact = forms(vectors, members)
    assert whitening_of(vectors, members) is None
    z, error = certified.whiten(vectors, certified.exact_whitening(form))
    with np.errstate(all="ignore"):
        bounds = certified.norm_bounds(z, error, 0.0)
    assert_enclosed(bounds, exact, np.inf)
    assert np.isfinite(bounds.upper[3:]).all()
    assert np.all(bounds.upper[3:] - bounds.lower[3:] < 1e-9 * bounds.upper[3:])


def test_removal_bounds_enclose_forms_of_what_is_left() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(50, 3))
    x[:3] *= 3
    vectors = Vectors((x,))
    whitening = whitening_of(vectors, np.arange(50))
    assert whitening is not None
    z, error = certified.whiten(vectors, whitening)
    left = certified.removal_whitening(z[:3], error[:3], whitening.epsilon)
    assert left is not None
    bounds = certified.removal_bounds(z[3:], error[3:], left)
    _, exact = forms(vectors, np.arange(3, 50))
    assert_enclosed(bounds, exact[3:], 1e-6)
    assert certified.removal_whitening(z[3:], error[3:] + 1, whitening.epsilon) is None
    assert certified.removal_whitening(np.full((1, 3), np.inf), error[:1], whitening.epsilon) is None


def test_nothing_is_known_after_a_removal_of_what_is_not_finite() -> None:
    """A vector that overflows when it is whitened, or of which no error is known, may be anywhere."""
    z = np.array([[np.inf, 0.0], [np.inf, -np.inf], [1e300, -1e300], [1.0, 0.0], [1.0, 0.0]])
    error = np.array([0.0, 0.0, 0.0, np.inf, 0.0])
    with np.errstate(all="ignore"):
        left = certified.removal_whitening(np.array([[0.0, 0.5]]), np.zeros(1), 0.0)
        twice = np.array([[0.0, 0.5], [0.0, 0.25]]), np.zeros(2)
        assert left is not None
        gone = np.array([[0.0, 0.5]]), np.zeros(1)
        found = [
            certified.growth_bounds(z, error, certified.reach(z, error), *some, left).most for some in (gone, twice)
        ]
    for most in found:
        assert not (most[:4] < np.inf).any()
        assert 0 < most[4] < 1e-12


@pytest.mark.parametrize(("width", "kind"), [(2, np.float64), (40, np.float32)])
def test_lengths_near_the_largest_float_are_not_known(width: int, kind: type[np.float32 | np.float64]) -> None:
    """A sum with one of them would be infinite, and so beyond every threshold, whatever that is."""
    lengths = certified.Lengths(Centred(np.zeros((4, width)), np.zeros(width)), plain(np.eye(width), 1.0), limit=1.0)
    largest = np.finfo(kind).max
    q = np.array([largest / 8, largest * 0.99, largest, np.inf, np.nan], dtype=kind)
    with np.errstate(all="ignore"):
        found, (lower, upper) = lengths.of(slice(0, 4)), lengths.enclosed(q)
    assert found.dtype == kind
    assert np.isfinite(upper).tolist() == [True, False, False, False, False]
    assert (lower > 0).tolist() == [True, False, False, False, False]


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(0), Fraction(5), Fraction(1, 10**400), Fraction(10**400)])
def test_thresholds_are_enclosed(value: Fraction) -> None:
    lower, upper = certified.enclose(value.numerator, value.denominator)
    assert (Fraction(lower) if np.isfinite(lower) else 0) <= value
    assert upper == np.inf or value <= Fraction(upper)
    assert lower < upper


def pair_distance(x: Rows, sigma: Rows, i: int, j: int) -> Fraction:
    inverse = inverse_or_none(exact_matrix("sigma", sigma))
    assert inverse is not None
    return to_fraction(mahalanobis_squared(exact_matrix("x", x[[i]]) - exact_matrix("x", x[[j]]), inverse)[0])


@pytest.mark.parametrize("offset", [0.0, 1e3, 2.0**26 + 0.1, 1e9, 1e15])
@pytest.mark.parametrize("digits", [10, 25, 40, 48, 52, 60, 200])
def test_near_ties_of_distances_far_from_the_centre(offset: float, digits: int) -> None:
    """A second cluster, far from the centre, with thresholds just beside the distances inside it."""
    rng = np.random.default_rng(digits)
    x = rng.normal(size=(100, 2))
    x[60:] += offset
    reference = [*range(60, 70), *range(12)]
    sigma = np.array([[1.0, 0.25], [0.25, 1.0]])
    for i in range(61, 65):
        nudge = 1 + Fraction(int(rng.choice([-1, 1])), 1 << digits)
        lam = pair_distance(x, sigma, i, 60) / 2 * nudge
        tau = sum(pair_distance(x, sigma, i, j) <= 2 * lam for j in reference)
        fast = fastimpl.largest_core(x, sigma, lam, tau, reference)
        assert fast == refimpl.largest_core(x, sigma, lam, tau, reference)
        assert fastimpl.largest_core(x, sigma, lam, tau + 1, reference) == refimpl.largest_core(
            x, sigma, lam, tau + 1, reference
        )


@pytest.mark.parametrize("digits", [10, 25, 40, 48, 52, 60, 200])
@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6, 1e-9])
def test_near_ties_of_norms(digits: int, spread: float) -> None:
    """Thresholds just beside the largest norm, from well conditioned rows to nearly collinear ones."""
    rng = np.random.default_rng(digits)
    y = rng.normal(size=(40, 3))
    y[:, 2] = y[:, 0] + spread * y[:, 2]
    _, exact = forms(Vectors((y,)), np.arange(40))
    for sign in (-1, 1):
        lam = 40 * max(exact) * (1 + Fraction(sign, 1 << digits))
        fast = fastimpl.largest_good_subset(y, lam)
        assert fast == refimpl.largest_good_subset(y, lam)
        assert (len(fast) == 40) == (sign == 1)


@pytest.mark.parametrize("digits", [10, 20, 25, 30, 35, 40, 60])
@pytest.mark.parametrize("power", [4, 16, 26, 40])
def test_near_ties_of_distances_in_a_thin_covariance(power: int, digits: int) -> None:
    rng = np.random.default_rng([power, digits])
    x = rng.normal(size=(60, 2))
    x[:, 1] = x[:, 0] + 2.0 ** (-power / 2) * x[:, 1]
    sigma = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-power]])
    reference = list(range(20))
    for i in range(30, 36):
        lam = pair_distance(x, sigma, i, 3) / 2 * (1 + Fraction(int(rng.choice([-1, 1])), 1 << digits))
        tau = sum(pair_distance(x, sigma, i, j) <= 2 * lam for j in reference)
        fast = fastimpl.largest_core(x, sigma, lam, tau, reference)
        assert fast == refimpl.largest_core(x, sigma, lam, tau, reference)


def test_sums_of_four_rows_are_rounded_well_or_not_at_all() -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.normal(size=(3000, 2)) * 2.0 ** rng.integers(-30, 31, (3000, 2)) for _ in range(3))
    e = (a - b) + c + rng.choice([0.0, 2.0**-40, 2.0**-50, 2.0**-60, 1.0], (3000, 2)) * a
    found = Vectors((a, c), (b, e)).rounded()
    known = np.isfinite(found)
    assert known.any()
    assert not known.all()
    parts = (part[known].tolist() for part in (a, b, c, e, found))
    for p, q, r, s, value in zip(*parts, strict=True):
        exact = Fraction(p) - Fraction(q) + Fraction(r) - Fraction(s)
        assert abs(Fraction(value) - exact) <= abs(exact) / 2**52


def test_nothing_is_known_of_a_row_at_the_centre_of_a_metric_out_of_reach() -> None:
    """Row 0 is the centre, so its computed length is 0; the condition is beyond all float stages, so 0 says nothing."""
    x = np.zeros((10, 2))
    x[0], x[7], x[9] = 5e307, 1.0, [0.0, 1.0]
    reference = [0, 2, 3, 5, 6, 8, 9]
    covariance, exact = fastimpl.stable_covariance(x, 5, 2), refimpl.stable_covariance(x, 5, 2)
    for lam in (Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(8, 5)):
        fast = fastimpl.stable_mean(x, covariance, lam, 2, reference)
        assert tuple(fast.entry_level) == refimpl.stable_mean(x, exact, lam, 2, reference).entry_level
