"""Releases are the float64 nearest to the true value of mean + c L z and of (1/N) L A A^T L^T, in both implementations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx, fmpz_mat
from numpy.typing import NDArray
from scipy import stats

import fastimpl
import fastimpl.normals
import refimpl
import refimpl.normals
from fastimpl.exact import column_units, gram, matrix_form
from fastimpl.moments import Lifted
from fastimpl.normals import ends
from fastimpl.release import exact_root
from fastimpl.rows import Sparse, Vectors, pairs, pairs_of_pairs
from fastimpl.sums import cholesky, enclosed_sums, exact_sums

Rows = NDArray[np.float64]


# Normals --------------------------------------------------------------------------------------------------------------

SHAPES = [((3, 5), None), ((4, 4), 4), ((4, 4), 2), ((3, 3), 1000), ((3, 3), 20_000_000), ((2, 2), 1)]


@pytest.mark.parametrize(("shape", "samples"), SHAPES)
def test_both_implementations_read_the_same_real_numbers(shape: tuple[int, int], samples: int | None) -> None:
    for seed in (b"a" * 32, b"b" * 32):
        exact = refimpl.normals.RealNormals(seed, "here", shape, samples)
        fast = fastimpl.normals.RealNormals(seed, "here", shape, samples)
        assert np.array_equal(exact.floats, fast.floats)
        for bits in (64, 150):
            for row, other in zip(exact.enclosures(bits), fast.balls(bits), strict=True):
                for enclosure, ball in zip(row, other, strict=True):
                    low, high = ends(ball)
                    assert max(low, enclosure.lower) <= min(high, enclosure.upper)
                    assert max(high - low, enclosure.upper - enclosure.lower) <= Fraction(max(1, abs(high))) / 2 ** (
                        bits - 8
                    )


def test_normals_are_quantiles_of_their_digits() -> None:
    """By another library: Phi of the number is U."""
    normals = refimpl.normals.RealNormals(b"c" * 32, "here", (1, 50))
    with mpmath.workprec(400):
        for at, enclosure in enumerate(normals.enclosures(200)[0]):
            u = mpmath.mpf(normals._uniform(at)(350)) / mpmath.mpf(2) ** 350
            for end, sign in ((enclosure.lower, -1), (enclosure.upper, 1)):
                phi = mpmath.ncdf(mpmath.mpf(end.numerator) / end.denominator)
                assert sign * (phi - u) > -(mpmath.mpf(2) ** -340)


def test_a_number_keeps_its_digits_when_more_are_asked_for() -> None:
    normals = refimpl.normals.RealNormals(b"d" * 32, "here", (3, 3), 7)
    for row, longer in zip(normals.enclosures(60), normals.enclosures(300), strict=True):
        for few, many in zip(row, longer, strict=True):
            assert few.lower <= many.lower <= many.upper <= few.upper


@pytest.mark.parametrize("samples", [1, 2, 3, 40])
@pytest.mark.parametrize("module", [refimpl.normals, fastimpl.normals])
def test_factors_have_chi_squared_diagonals(module: Any, samples: int) -> None:
    squares = [module.RealNormals(i.to_bytes(32, "big"), "chi", (1, 1), samples).floats[0, 0] ** 2 for i in range(300)]
    assert stats.kstest(squares, stats.chi2(samples).cdf).pvalue > 1e-4


# Sums and factors -----------------------------------------------------------------------------------------------------


def _rows(kind: str, n: int, d: int, rng: np.random.Generator) -> Rows:
    x = rng.normal(size=(n, d))
    if kind == "shifted":
        return x + 2.0**40
    if kind == "scaled":
        return np.asarray(x * 10.0 ** rng.integers(-200, 200, d))
    if kind == "heavy":
        return np.asarray(x / rng.uniform(size=(n, 1)) ** 3)
    if kind == "integers":
        return np.round(4 * x)
    if kind == "ends":  # every slice and every rest as large as it can be, all of one sign
        return np.full((n, d), 1.0 - 2.0**-53) - rng.integers(0, 2, (n, d)) * 2.0**-22
    return np.asarray(x)


KINDS = ["plain", "shifted", "scaled", "heavy", "integers", "ends"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [pairs, lambda x: Lifted(x, np.median(x, axis=0)), lambda x: Vectors((x,))])
def test_sums_are_enclosed(make: Callable[[Rows], Vectors], kind: str) -> None:
    rng = np.random.default_rng(0)
    vectors = make(_rows(kind, 9000, 3, rng))
    entry = np.where(rng.uniform(size=len(vectors)) < 0.002, rng.integers(0, 9, len(vectors)), 4)
    counts = Sparse.of(entry)
    sums, (exact, unit) = enclosed_sums(vectors, counts), exact_sums(vectors, counts)
    assert sums is not None
    for j in range(vectors.width):
        for ell in range(vectors.width):
            truth = Fraction(int(exact[j, ell])) * Fraction(2) ** int(unit[j] + unit[ell])
            low, high = ends(sums[j][ell])
            assert low <= truth <= high
            largest = max(abs(v) for v in (vectors.rounded()[:, j]).tolist()) * Fraction(4)
            other = max(abs(v) for v in (vectors.rounded()[:, ell]).tolist()) * Fraction(4)
            assert high - low <= largest * other * len(vectors) * 4 / 2**78


@pytest.mark.parametrize(
    "vectors",
    [
        pairs_of_pairs(np.random.default_rng(0).normal(size=(40, 2))),
        Vectors((np.full((30, 2), 2.0**-1000),)),
        pairs(np.array([[1e308], [-1e308]])),
    ],
)
def test_where_slices_will_not_do_integers_do(vectors: Vectors) -> None:
    assert enclosed_sums(vectors, Sparse.of(np.ones(len(vectors), dtype=np.int64))) is None


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 3), Fraction(10**30, 11)])
def test_exact_roots_are_roots(scale: Fraction) -> None:
    rng = np.random.default_rng(1)
    for d, rank in ((1, 1), (3, 3), (3, 2), (4, 1), (2, 0)):
        rows = np.round(8 * rng.normal(size=(max(rank, 1), d))) * (rank > 0) * 2.0 ** rng.integers(-40, 40, d)
        unit = column_units(Vectors((rows,)))
        form = matrix_form(rows.T @ rows, unit)
        with ctx.workprec(200):
            root = exact_root(form, scale)
            assert root is not None
            for i in range(d):
                for j in range(i + 1):
                    product = sum((root[i][e] * root[j][e] for e in range(j + 1)), arb(0))
                    low, high = ends(product)
                    truth = Fraction(float((rows.T @ rows)[i, j])) / scale
                    assert low <= truth <= high
                    assert high - low <= abs(truth) / 2**150 + Fraction(1, 2**150)


def test_a_pivot_that_may_be_zero_is_no_pivot() -> None:
    assert cholesky([[arb(0, 1e-30)]]) is None
    assert cholesky([[arb(1)], [arb(1), arb(1)]]) is None
    assert cholesky([[arb(4)], [arb(2), arb(2)]]) == [[arb(2)], [arb(1), arb(1)]]


def test_integer_sums_are_those_of_refimpl() -> None:
    x = np.random.default_rng(2).normal(size=(50, 3))
    sums, unit = exact_sums(Vectors((x,)), Sparse.of(np.ones(50, dtype=np.int64)))
    assert sums == gram(Vectors((x,)), unit)
    assert isinstance(sums, fmpz_mat)


# Releases -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "shifted", "scaled", "integers"])
@pytest.mark.parametrize("task", ["mean", "covariance", "gaussian"])
@pytest.mark.parametrize("d", [1, 2])
def test_sharp_releases_the_same_floats_in_both(task: str, kind: str, d: int) -> None:
    n = {"mean": 700, "covariance": 900, "gaussian": 1100}[task]
    x = _rows(kind, n, d, np.random.default_rng(3))
    parameters = getattr(refimpl, f"{task}_parameters")(n, d, epsilon=1, delta="1e-2", lambda_0=18)
    released = 0
    for seed in range(2):
        exact, fast = (
            getattr(i, f"private_{task}")(x, parameters=parameters, rng=np.random.default_rng(seed))
            for i in (refimpl, fastimpl)
        )
        for name in {"mean", "covariance"} & set(vars(exact)):
            one, two = getattr(exact, name), getattr(fast, name)
            assert (one is None) == (two is None)
            if one is not None:
                released += 1
                assert one.tolist() == two.tolist()
    assert released


def test_numbers_of_ones_own_are_taken_as_they_stand() -> None:
    x = np.random.default_rng(4).normal(size=(700, 2))
    parameters = refimpl.mean_parameters(700, 2, epsilon=1, delta="1e-2", lambda_0=18)
    coins = refimpl.draw_mean_coins(parameters, np.random.default_rng(0))
    own = dataclasses.replace(coins, normals=np.zeros(2), seed=None)
    exact, fast = (i.private_mean_given(x, parameters, own).mean for i in (refimpl, fastimpl))
    truth = refimpl.stable_moments(x, 18, parameters.k, parameters.window).mean
    assert exact.tolist() == fast.tolist() == [float(value) for value in truth]


@pytest.mark.parametrize("implementation", [refimpl, fastimpl])
def test_normals_and_seed_belong_together(implementation: Any) -> None:
    parameters = refimpl.gaussian_parameters(900, 2, epsilon=1, delta="1e-2", lambda_0=18)
    coins = implementation.draw_gaussian_coins(parameters, np.random.default_rng(0))
    x = np.random.default_rng(4).normal(size=(900, 2))
    for half in ("mean", "covariance"):
        changed = dataclasses.replace(getattr(coins, half), normals=getattr(coins, half).normals + 1)
        with pytest.raises(ValueError, match=rf"coins\.{half}\.normals are not those of its seed"):
            implementation.private_gaussian_given(x, parameters, dataclasses.replace(coins, **{half: changed}))


@pytest.mark.parametrize("implementation", [refimpl, fastimpl])
def test_a_mean_of_zero_shows_in_no_low_bit(implementation: Any) -> None:
    """With normals that were floats, a release about 0 is a multiple of some power of two that others are not."""
    label, scale = "mean/normals", Fraction(1, 64)

    def lowest(mean: Fraction | float, real: bool) -> float:
        bits = []
        for i in range(200):
            drawn = implementation.normals.RealNormals(i.to_bytes(32, "big"), label, (1, 1))
            z = drawn if real else np.round(drawn.floats[0] * 2.0**40) / 2.0**40  # the marks of a float, made larger
            release = implementation.gaussian_release([mean], [[1]], scale, z)[0]
            bits.append((Fraction(release) / Fraction(2) ** -46).denominator == 1)
        return float(np.mean(bits))

    assert lowest(0.0, real=False) == 1.0
    assert lowest(0.0, real=True) < 0.1
    assert lowest(1 / 3, real=True) < 0.1


@pytest.mark.parametrize(("beyond", "rounded"), [(2.0**-200, 1 + 2.0**-52), (-(2.0**-200), 1.0)])
@pytest.mark.parametrize("implementation", [refimpl, fastimpl])
def test_what_is_near_a_tie_is_looked_at_more_closely(implementation: Any, beyond: float, rounded: float) -> None:
    """1 + 2^-53 + 2^-200 is above the middle of two floats; 128 bits do not tell."""
    release = implementation.gaussian_release([0, 1], [[1, 1], [1, 2]], Fraction(1), [2.0**-53, beyond])
    assert release[1] == rounded


@pytest.mark.parametrize("task", ["mean", "covariance"])
def test_integers_release_what_slices_do(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = _rows("shifted", 900, 2, np.random.default_rng(5))
    parameters = getattr(refimpl, f"{task}_parameters")(900, 2, epsilon=1, delta="1e-2", lambda_0=18)

    def release() -> list[float]:
        result = getattr(fastimpl, f"private_{task}")(x, parameters=parameters, rng=np.random.default_rng(0))
        found: list[float] = getattr(result, task).tolist()
        return found

    sliced = release()
    monkeypatch.setattr("fastimpl.private.enclosed_sums", lambda *_: None)
    assert release() == sliced
