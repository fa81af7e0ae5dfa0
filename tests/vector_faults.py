"""The bugs that the test vectors are there to catch, each as a target: those of ``mutants``, and naive implementations.

``FAULTS`` has them by the key that a vector names in ``bug``, with what is wrong in words.
"""

# ruff: noqa: ARG002, ARG005 - ignoring an argument is often the fault
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
from flint import fmpq_mat
from mutants import MUTANTS
from mutants.algorithms import Algorithms, Decisions, degrees_of

import refimpl
from refimpl.linalg import (
    exact_matrix,
    inverse_or_none,
    mahalanobis_squared,
    rows_of,
    second_moment,
    to_fmpq,
    to_fraction,
    weighted_mean,
)
from refimpl.parameters import PRINTED, REPAIRED, Edition, ordered_stability_gamma
from refimpl.ptr import printed_formula_at_growth, ptr_pass_probability_at_growth

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True)
class Fault:
    """A target with one fault, what is wrong in words, and the rounding of numbers that it is granted all the same.

    ``others`` have the same fault with other roundings: how BLAS and LAPACK round a sum depends on the processor, and a vector
    that shows what floats do wrong need not show it in every order of summation.
    """

    text: str
    implementation: Any
    rounding: Fraction = Fraction(0)
    others: tuple[Any, ...] = ()


class _Mutant:
    """A mutant of the algorithms, which also releases as its algorithm does."""

    def __init__(self, implementation: Any) -> None:
        self.implementation = implementation
        if isinstance(implementation, Algorithms):
            self.gaussian_release = implementation.decisions.release

    def __getattr__(self, name: str) -> Any:
        return getattr(self.implementation, name)


FAULTS: dict[str, Fault] = {name: Fault(m.fault, _Mutant(m.implementation)) for name, m in MUTANTS.items()}


def _fault(name: str, text: str, implementation: Any = None, rounding: int = 0, **decisions: Any) -> None:
    assert name not in FAULTS
    allowed = Fraction(1, 1 << rounding) if rounding else Fraction(0)
    FAULTS[name] = Fault(text, implementation or Algorithms(Decisions(**decisions)), allowed)


# Floating point -------------------------------------------------------------------------------------------------------


def _entry(sets: Sequence[Iterable[int]], rows: int) -> list[int]:
    return [next((ell for ell, s in enumerate(sets) if i in s), len(sets)) for i in range(rows)]


def _rounded_entries(matrix: fmpq_mat) -> Any:
    return np.array([[float(to_fraction(v)) for v in row] for row in matrix.tolist()])


def _product(rows: Any) -> Any:
    return rows.T @ rows


def _rounded_product(rows: Any) -> Any:
    """Every entry rounded once, on any machine."""
    exact = exact_matrix("rows", rows)
    return _rounded_entries(exact.transpose() * exact)


def _product_row_by_row(rows: Any) -> Any:
    return (rows[:, :, None] * rows[:, None, :]).sum(axis=0)


def _rounded_inverse(matrix: Any) -> Any:
    """Every entry rounded once, on any machine."""
    inverse = inverse_or_none(exact_matrix("matrix", matrix))
    if inverse is None:
        raise np.linalg.LinAlgError("Singular matrix")
    return _rounded_entries(inverse)


@dataclass(frozen=True)
class Naive:
    """What one writes first: the pseudocode in numpy, with numpy's inverse, in one precision."""

    dtype: Any = np.float64
    inverse: Callable[[Any], Any] = np.linalg.inv
    expanded: bool = False
    product: Callable[[Any], Any] = _product

    def _inverse(self, matrix: Any) -> Any:
        try:
            return self.inverse(matrix)
        except np.linalg.LinAlgError:
            return None

    def _good(self, y: Any, lam: float) -> frozenset[int]:
        subset = np.arange(len(y))
        while True:
            inverse = self._inverse(self.product(y[subset]) / self.dtype(len(y)))
            if inverse is None:
                return frozenset()
            kept = subset[np.einsum("ij,jk,ik->i", y[subset], inverse, y[subset]) <= lam]
            if len(kept) == len(subset):
                return frozenset(kept.tolist())
            subset = kept

    def largest_good_subset(self, y: Any, lam: Any) -> frozenset[int]:
        with np.errstate(all="ignore"):
            return self._good(np.asarray(y, dtype=self.dtype), float(lam))

    def stable_second_moment(self, y: Any, lambda_0: Any, k: int, *, edition: Edition = REPAIRED) -> Any:
        with np.errstate(all="ignore"):
            y, m = np.asarray(y, dtype=self.dtype), len(y)
            sets = [self._good(y, float(lambda_0) / (1 - ell / (10 * k))) for ell in range(2 * k + 1)]
            score = min(k, *(m - len(sets[ell]) + ell for ell in range(k + 1)))
            counts = np.array([sum(i in sets[ell] for ell in range(k + 1, 2 * k + 1)) for i in range(m)])
            weights = counts / (k * m)
            return SimpleNamespace(
                covariance=(y.T * weights) @ y, score=score, weights=weights, entry_level=_entry(sets, m)
            )

    def stable_covariance(self, x: Any, lambda_0: Any, k: int, *, edition: Edition = REPAIRED) -> Any:
        with np.errstate(all="ignore"):
            m = len(x) // 2
            y = (np.asarray(x, dtype=self.dtype)[:m] - np.asarray(x, dtype=self.dtype)[m : 2 * m]) / np.sqrt(2)
            return self.stable_second_moment(y, lambda_0, k)

    def _degrees(self, x: Any, covariance: Any, bound: float, reference: Sequence[int]) -> Any:
        x = np.asarray(x, dtype=self.dtype)
        inverse = self._inverse(np.asarray(getattr(covariance, "covariance", covariance), dtype=self.dtype))
        if inverse is None:
            return np.zeros(len(x), dtype=int)
        if self.expanded:
            squares = np.einsum("ij,jk,ik->i", x, inverse, x)
            r = list(reference)
            distances = squares[:, None] - 2 * x @ inverse @ x[r].T + squares[r][None, :]
        else:
            gaps = x[:, None, :] - x[None, list(reference), :]
            distances = np.einsum("ijk,kl,ijl->ij", gaps, inverse, gaps)
        return (distances <= bound).sum(axis=1)

    def largest_core(self, x: Any, covariance: Any, lam: Any, tau: int, reference: Sequence[int]) -> list[int]:
        with np.errstate(all="ignore"):
            degrees = self._degrees(x, covariance, 2 * float(lam), reference)
            return [int(i) for i in np.flatnonzero(degrees >= tau)]

    def stable_mean(
        self, x: Any, covariance: Any, lambda_0: Any, k: int, reference: Any, *, edition: Edition = REPAIRED
    ) -> Any:
        with np.errstate(all="ignore"):
            n, lam = len(x), float(lambda_0)
            gamma = 50 / 9 * lam / n
            sets = []
            for ell in range(2 * k + 1):
                degrees = self._degrees(x, covariance, 2 * lam * (1 - gamma) ** -ell, reference)
                sets.append(frozenset(np.flatnonzero(degrees >= len(reference) - ell).tolist()))
            score = min(k, *(n - len(sets[ell]) + ell for ell in range(k + 1)))
            counts = np.array([sum(i in sets[ell] for ell in range(k + 1, 2 * k + 1)) for i in range(n)])
            weights = counts / max(1, counts.sum())
            mean = weights @ np.asarray(x, dtype=self.dtype)
            return SimpleNamespace(mean=mean, score=score, weights=weights, entry_level=_entry(sets, n))


_fault("float64", "every decision is made in float64", Naive(), rounding=30)
FAULTS["float64"] = replace(
    FAULTS["float64"],
    others=tuple(
        Naive(inverse=inverse, product=product)
        for inverse in (np.linalg.inv, _rounded_inverse)
        for product in (_product, _rounded_product, _product_row_by_row)
    )[1:],
)
_fault("float32", "every decision is made in float32", Naive(np.float32), rounding=12)
_fault(
    "expanded_distances", "distances as x'Ax - 2x'Ay + y'Ay in float64, which cancel", Naive(expanded=True), rounding=30
)
_fault(
    "pseudo_inverse",
    "a pseudo-inverse stands in for the inverse of a singular matrix",
    Naive(inverse=np.linalg.pinv),
    rounding=30,
)
_fault(
    "tolerance",
    "norms and distances up to 1e-9 above the threshold are let through",
    is_outlier=lambda squared, lam: squared > lam * to_fmpq(1 + Fraction(1, 10**9)),
    degrees=lambda distances, bound, reference: degrees_of(distances, bound * (1 + Fraction(1, 10**9)), reference),
)
_fault(
    "thresholds_in_float64",
    "lambda_ell and Lambda_ell are rounded to float64",
    covariance_rules={
        "outlier_threshold": lambda lambda_0, k, _m, ell: Fraction(float(lambda_0) / (1 - ell / (10 * k)))
    },
    mean_rules={
        "distance_threshold": lambda lambda_0, _k, n, ell: Fraction(
            float(lambda_0) * (1 - 50 / 9 * float(lambda_0) / n) ** -ell
        )
    },
)


class _Rows:
    """refimpl on rows that were changed on the way in."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def largest_good_subset(self, y: Any, lam: Any) -> Any:
        return refimpl.largest_good_subset(self.change(y), lam)

    def stable_second_moment(self, y: Any, *arguments: Any) -> Any:
        return refimpl.stable_second_moment(self.change(y), *arguments)

    def stable_covariance(self, x: Any, *arguments: Any) -> Any:
        return refimpl.stable_covariance(self.change(x), *arguments)


def _as_float32(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(x, dtype=np.float32).astype(np.float64)


_fault("float32_rows", "rows are stored in float32", _Rows(_as_float32))


# Good subsets ---------------------------------------------------------------------------------------------------------


def _raise_if_singular(matrix: fmpq_mat) -> fmpq_mat:
    if not matrix.det():
        raise np.linalg.LinAlgError("Singular matrix")
    return matrix.inv()


_fault(
    "singular_raises",
    "a singular matrix raises an exception, which depends on the rows",
    inverse=_raise_if_singular,
    distance_inverse=_raise_if_singular,
)
_fault(
    "singular_keeps_all",
    "a singular second moment is taken for a zero norm of every row",
    inverse=lambda matrix: matrix.inv() if matrix.det() else matrix * 0,
)
_fault(
    "singular_core_keeps_all",
    "a singular covariance is taken for zero distances",
    distance_inverse=lambda matrix: matrix.inv() if matrix.det() else matrix * 0,
)
_fault(
    "divides_by_one_less",
    "the second moment is divided by m - 1",
    share=lambda rows, size: Fraction(1, max(rows - 1, 1)),
)


def _centred(y: Any) -> Any:
    rows = exact_matrix("y", y)
    centre = weighted_mean(rows, [Fraction(1, rows.nrows())] * rows.nrows())
    return [[to_fraction(v) - c for v, c in zip(row, centre, strict=True)] for row in rows.tolist()]


_fault("norms_are_centred", "the mean of the rows is subtracted before their norms are taken", _Rows(_centred))


def _set_of_rows(y: Any, lam: Any) -> frozenset[int]:
    distinct = list(dict.fromkeys(map(tuple, np.asarray(y).tolist())))
    kept = {distinct[i] for i in refimpl.largest_good_subset([list(row) for row in distinct], lam)}
    return frozenset(i for i, row in enumerate(map(tuple, np.asarray(y).tolist())) if row in kept)


_fault(
    "rows_as_a_set",
    "equal rows are counted once",
    SimpleNamespace(largest_good_subset=_set_of_rows),
)

# Pairing --------------------------------------------------------------------------------------------------------------


def _paired_by(firsts: Callable[[int], Sequence[int]], seconds: Callable[[int], Sequence[int]]) -> Callable[..., Any]:
    def paired(x: fmpq_mat) -> fmpq_mat:
        n = x.nrows()
        return rows_of(x, firsts(n)) - rows_of(x, seconds(n))

    return paired


def _sorted_rows(x: fmpq_mat) -> fmpq_mat:
    rows = fmpq_mat(sorted(x.tolist()))
    m = rows.nrows() // 2
    return rows_of(rows, range(m)) - rows_of(rows, range(m, 2 * m))


def _differences_in_float64(x: Any) -> Any:
    m, array = len(x) // 2, np.asarray(x)
    with np.errstate(all="ignore"):
        return array[:m] - array[m : 2 * m]


def _rounded_pairs(x: Any, lambda_0: Any, k: int) -> Any:
    result = refimpl.stable_second_moment(_differences_in_float64(x), lambda_0, k)
    return replace(result, covariance=result.covariance * to_fmpq(Fraction(1, 2)))


_fault(
    "pairs_of_neighbours",
    "rows 2i and 2i + 1 are paired",
    paired=_paired_by(lambda n: range(0, n // 2 * 2, 2), lambda n: range(1, n // 2 * 2, 2)),
)
_fault(
    "pairs_from_both_ends",
    "row i is paired with row n - 1 - i",
    paired=_paired_by(lambda n: range(n // 2), lambda n: range(n - 1, n - 1 - n // 2, -1)),
)
_fault("rows_are_sorted_first", "rows are sorted, and then paired", paired=_sorted_rows)
_fault(
    "all_pairs",
    "every two rows are a pair",
    paired=_paired_by(
        lambda n: [i for i in range(n) for _ in range(i + 1, n)],
        lambda n: [j for i in range(n) for j in range(i + 1, n)],
    ),
)
_fault(
    "differences_in_float64",
    "x_i - x_{i+m} is rounded to float64",
    SimpleNamespace(stable_covariance=_rounded_pairs),
)

# Cores ----------------------------------------------------------------------------------------------------------------

_fault(
    "core_radius_is_not_doubled",
    "squared distances are compared with lam and not with 2 lam",
    degrees=lambda distances, bound, reference: degrees_of(distances, bound / 2, reference),
)
_fault(
    "degree_must_exceed_tau",
    "a degree equal to tau does not suffice",
    degrees=lambda *arguments: [degree - 1 for degree in degrees_of(*arguments)],
)
_fault(
    "reference_is_a_prefix",
    "the first abs(R) rows serve as R",
    reference=lambda reference, n: range(len(reference)),
)
_fault(
    "distances_are_not_squared",
    "the distance itself is compared with 2 lam",
    degrees=lambda distances, bound, reference: degrees_of(distances, bound**2, reference),
)


def _core_of_distinct(x: Any, covariance: Any, lam: Any, tau: int, reference: Sequence[int]) -> Any:
    rows = list(map(tuple, np.asarray(x).tolist()))
    first = {rows[j]: j for j in reversed(reference)}
    return refimpl.largest_core(x, covariance, lam, tau, sorted(first.values()))


_fault(
    "neighbours_as_a_set",
    "equal reference rows are counted once",
    SimpleNamespace(largest_core=_core_of_distinct),
)
_fault(
    "mean_score_is_not_capped",
    "SCORE_2 is not cut off at k",
    mean_score=lambda sets, rows, k, edition: min(rows - len(sets[ell]) + ell for ell in range(k + 1)),
)
_fault(
    "gamma_of_the_pairs",
    "gamma is (50/9) lambda_0/m with m = n/2 and not with n",
    mean_rules={
        "distance_threshold": lambda lambda_0, _k, n, ell: (
            lambda_0 * (1 - min(ordered_stability_gamma(lambda_0, n // 2), Fraction(9, 10))) ** -ell
        )
    },
)


class _RoundedCovariance:
    """The pipeline passes the matrix on as float64."""

    stable_covariance = staticmethod(refimpl.stable_covariance)

    @staticmethod
    def stable_mean(x: Any, covariance: Any, *arguments: Any) -> Any:
        matrix = getattr(covariance, "covariance", covariance)
        if isinstance(matrix, fmpq_mat):
            matrix = np.array([[float(to_fraction(v)) for v in row] for row in matrix.tolist()])
        return refimpl.stable_mean(x, matrix, *arguments)


_fault("covariance_is_rounded", "the mean stage is given the covariance rounded to float64", _RoundedCovariance())

# The test -------------------------------------------------------------------------------------------------------------


def _law(score: int, growth: Any, delta: Fraction, edition: Edition) -> Any:
    return ptr_pass_probability_at_growth(score, growth, delta, edition=edition)


def _other(edition: Edition) -> Edition:
    return REPAIRED if edition is PRINTED else PRINTED


def _law_in_float64(score: int, growth: Any, delta: Fraction, edition: Edition) -> Any:
    g, d = float(growth), float(delta)
    if edition is PRINTED:
        tau = 4 + math.log((1 - d) / d) / math.log(g)
        return 1.0 if score == 0 else 0.0 if score >= tau else max(0.0, 1 - d * g ** (score - 2))
    turning = 1 + (g**2 - 1) / (2 * d)
    first = 1 - d * (g**score - 1) / (g**2 - 1)
    return first if g**score <= turning else max(0.0, d / (g**2 - 1) * (turning**2 / g**score - 1))


def _unclipped(score: int, growth: Any, delta: Fraction, edition: Edition) -> Any:
    return (
        printed_formula_at_growth(score, growth, delta) if edition is PRINTED else _law(score, growth, delta, edition)
    )


_fault(
    "law_of_the_other_edition",
    "PRINTED's law where REPAIRED's is asked for, and the other way round",
    law=lambda score, growth, delta, edition: _law(score, growth, delta, _other(edition)),
)
_fault(
    "law_one_score_late",
    "the law of the score before",
    law=lambda score, growth, delta, edition: _law(max(score - 1, 0), growth, delta, edition),
)
_fault("law_in_float64", "the law is computed in float64, as it stands", law=_law_in_float64, rounding=30)
_fault("law_is_not_clipped", "Eq. (135) is used where it is negative", law=_unclipped)
_fault(
    "delta_is_not_divided",
    "the branches are scaled by delta and not by delta/(growth^2 - 1)",
    law=lambda score, growth, delta, edition: (
        max(1 - delta * (growth**score - 1), growth * 0)
        if edition is REPAIRED
        else _law(score, growth, delta * 2, edition)
    ),
)

# Parameters -----------------------------------------------------------------------------------------------------------


def _planner(
    change: Callable[[Any], dict[str, Any]] = lambda p: {}, gates: Callable[[Any], bool] = refimpl.passes_gates
) -> Any:
    """Parameters of refimpl with some fields changed, and gates."""

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        def planned(n: int, d: int, **public: Any) -> Any:
            p = function(n, d, **public)
            known = {name: value for name, value in change(p).items() if hasattr(p, name)}
            return replace(p, **known)

        return planned

    return SimpleNamespace(
        mean_parameters=make(refimpl.mean_parameters),
        covariance_parameters=make(refimpl.covariance_parameters),
        passes_gates=gates,
    )


def _size_gate(p: Any, compare: Callable[[Any, Any], bool], rows: Any) -> bool:
    factor = 20 if p.edition is REPAIRED or hasattr(p, "reference_size") else 10
    return bool(p.n >= 2 and compare(rows, factor * p.k * p.lambda_0))


def _strict_gate(p: Any) -> bool:
    rows = p.n // 2 * 2 if p.edition is REPAIRED else p.n
    return refimpl.passes_gates(p) and _size_gate(p, operator.gt, rows)


def _other_edition(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda n, d, *, edition, **public: function(n, d, edition=_other(edition), **public)


_fault(
    "parameters_of_the_other_edition",
    "PRINTED's constants where REPAIRED's are asked for, and the other way round",
    SimpleNamespace(
        mean_parameters=_other_edition(refimpl.mean_parameters),
        covariance_parameters=_other_edition(refimpl.covariance_parameters),
        passes_gates=refimpl.passes_gates,
    ),
)
_fault(
    "gate_by_n_alone",
    "n/2 and not floor(n/2) is compared, and no covariance step",
    _planner(gates=lambda p: _size_gate(p, operator.ge, p.n)),
)
_fault("gate_is_strict", "n must be above the least n", _planner(gates=_strict_gate))
_fault(
    "no_stability_gate",
    "REPAIRED's second gate is left out",
    _planner(gates=refimpl.parameters.passes_size_gate),
)
_fault("k_without_the_last_four", "the + 4 of k is forgotten", _planner(lambda p: {"k": p.k - 4}))
_fault("k_rounded_down", "k is rounded down and not up", _planner(lambda p: {"k": p.k - 1}))
_fault(
    "k_of_the_whole_budget",
    "k is that of epsilon and not of its share",
    _planner(lambda p: {"k": math.ceil(p.k * p.test_epsilon / p.epsilon)}),
)
_fault(
    "noise_is_rounded_to_nearest",
    "c may be a float64 below the square root of c^2",
    _planner(lambda p: {"noise_scale": Fraction(math.nextafter(float(getattr(p, "noise_scale", 1)), 0))}),
)
_fault(
    "noise_of_the_whole_budget",
    "c is that of epsilon and not of its share",
    _planner(lambda p: {"noise_scale": getattr(p, "noise_scale", 0) * p.test_epsilon / p.epsilon}),
)
_fault(
    "noise_without_the_square_root",
    "c^2 is taken for c",
    _planner(lambda p: {"noise_scale": getattr(p, "noise_scale", 0) ** 2}),
)


def _reference_size(p: Any, n: int, edition: Edition) -> int:
    numerator = 24 if edition is REPAIRED else 16
    return min(p.n, 6 * p.k + math.ceil(18 * math.log(numerator * max(n, 1) / p.test_delta / 6)))


_fault(
    "reference_of_the_other_constant",
    "abs(R) of the other edition",
    _planner(lambda p: {"reference_size": _reference_size(p, p.n, _other(p.edition))}),
)
_fault(
    "reference_is_not_capped",
    "abs(R) may exceed n",
    _planner(lambda p: {"reference_size": max(getattr(p, "reference_size", 0), 6 * p.k)}),
)
_fault(
    "samples_rounded_up",
    "N is rounded up and not down",
    _planner(lambda p: {"samples": getattr(p, "samples", 0) + 1}),
)
_fault(
    "samples_of_the_whole_budget",
    "N is that of epsilon and not of its share",
    _planner(lambda p: {"samples": 4 * getattr(p, "samples", 0)}),
)

# Releases -------------------------------------------------------------------------------------------------------------


def _released(noise: Callable[[Any, Any], Any]) -> Any:
    def release(mean: Any, covariance: Any, scale: Any, normals: Any) -> Any:
        matrix = np.array([[float(v) for v in row] for row in np.asarray(covariance).tolist()])
        return np.array([float(v) for v in mean]) + float(scale) * noise(matrix, np.asarray(normals))

    return SimpleNamespace(gaussian_release=release)


def _symmetric_root(matrix: Any, normals: Any) -> Any:
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ (np.sqrt(np.maximum(values, 0)) * (vectors.T @ normals))


_fault("noise_of_the_symmetric_root", "Sigma^(1/2) z and not L z", _released(_symmetric_root), rounding=30)
_fault(
    "noise_by_cholesky_in_float64",
    "numpy's Cholesky factor, which raises where Sigma is singular",
    _released(lambda matrix, normals: np.linalg.cholesky(matrix) @ normals),
    rounding=30,
)
_fault(
    "noise_is_subtracted",
    "mean - c L z",
    SimpleNamespace(
        gaussian_release=lambda mean, covariance, scale, normals: refimpl.gaussian_release(
            mean, covariance, scale, -np.asarray(normals)
        )
    ),
)

# Definitions ----------------------------------------------------------------------------------------------------------


def _good(
    compare: Callable[[Any, Any], bool] = operator.le,
    divisor: Callable[[int, int], int] = lambda rows, size: rows,
    everywhere: bool = False,
    when_singular: bool = False,
    power: int = 1,
) -> Any:
    """is_good_subset and is_good_weighting with one thing changed."""

    def weighting(y: Any, weights: Sequence[Fraction], lam: Any) -> bool:
        rows = exact_matrix("y", y)
        inverse = inverse_or_none(second_moment(rows, weights))
        if inverse is None:
            return when_singular
        norms = mahalanobis_squared(rows, inverse)
        looked_at = [v for v, w in zip(norms, weights, strict=True) if w > 0 or everywhere]
        return all(0 <= w <= 1 for w in weights) and all(compare(v, to_fmpq(Fraction(lam) ** power)) for v in looked_at)

    def subset(y: Any, chosen: Iterable[int], lam: Any) -> bool:
        members, m = frozenset(chosen), len(y)
        share = Fraction(1, max(divisor(m, len(members)), 1))
        return weighting(y, [share * (i in members) for i in range(m)], lam)

    return SimpleNamespace(is_good_subset=subset, is_good_weighting=weighting)


def _good_in_floats(inverse: Callable[[Any], Any], by_row: bool) -> Any:
    def weighting(y: Any, weights: Sequence[Fraction], lam: Any) -> bool:
        w = np.array([float(v) for v in weights])
        with np.errstate(all="ignore"):
            try:
                inverted = inverse(_product_row_by_row(y * np.sqrt(w)[:, None]) if by_row else (y.T * w) @ y)
            except np.linalg.LinAlgError:
                return False
            return bool((np.einsum("ij,jk,ik->i", y, inverted, y)[w > 0] <= float(lam)).all())

    def subset(y: Any, chosen: Iterable[int], lam: Any) -> bool:
        members = set(chosen)
        return weighting(y, [Fraction(int(i in members), len(y)) for i in range(len(y))], lam)

    return SimpleNamespace(is_good_subset=subset, is_good_weighting=weighting)


_fault("good_is_strict", "a norm equal to lam is not good", _good(operator.lt))
_fault("good_divides_by_the_size", "weights are 1/abs(S) and not 1/m", _good(divisor=lambda rows, size: size))
_fault("good_looks_at_all_rows", "rows outside of the subset must be good too", _good(everywhere=True))
_fault("good_when_singular", "a singular second moment makes every row good", _good(when_singular=True))
_fault("good_not_squared", "the norm and not its square is compared with lam", _good(power=2))
_fault("good_in_float64", "goodness is decided in float64", _good_in_floats(np.linalg.inv, by_row=False))
FAULTS["good_in_float64"] = replace(
    FAULTS["good_in_float64"],
    others=tuple(
        _good_in_floats(inverse, by_row) for inverse in (np.linalg.inv, _rounded_inverse) for by_row in (False, True)
    )[1:],
)


def _core(
    degree: Callable[[Any, Any], bool] = operator.ge,
    radius: int = 2,
    everywhere: bool = False,
    near: Callable[[Any, Any], bool] = operator.le,
    checked: bool = True,
) -> Any:
    def is_core(x: Any, weights: Any, tau: Any, lam: Any, covariance: Any, reference: Sequence[int]) -> bool:
        if checked and (sum(weights) != 1 or min(weights) < 0):
            return False
        inverse = inverse_or_none(exact_matrix("covariance", covariance))
        rows, bound = exact_matrix("x", x), to_fmpq(radius * Fraction(lam))
        for i, w in enumerate(weights):
            gaps = rows_of(rows, reference) - rows_of(rows, [i] * len(reference))
            count = sum(near(v, bound) for v in mahalanobis_squared(gaps, inverse)) if inverse is not None else 0
            if (w > 0 or everywhere) and not degree(count, tau):
                return False
        return True

    return SimpleNamespace(is_weighted_core=is_core)


_fault("core_degree_is_strict", "a degree equal to tau does not suffice", _core(operator.gt))
_fault("core_radius_is_single", "squared distances are compared with lam and not with 2 lam", _core(radius=1))
_fault("core_looks_at_all_rows", "rows of weight 0 must have the degree too", _core(everywhere=True))
_fault("core_is_strict", "a reference row at squared distance 2 lam is not counted", _core(near=operator.lt))
_fault(
    "weights_are_not_checked",
    "weights that are no weights are not refused",
    SimpleNamespace(
        is_weighted_core=_core(checked=False).is_weighted_core,
        is_good_weighting=lambda y, weights, lam: refimpl.is_good_weighting(
            y, [min(max(w, Fraction(0)), Fraction(1)) for w in weights], lam
        ),
    ),
)


def _representative(share: Fraction, change: Callable[[Edition], Edition]) -> Any:
    def holds(x: Any, covariance: Any, lambda_0: Any, k: int, reference: Any, *, edition: Edition = REPAIRED) -> bool:
        rows, rules, n = exact_matrix("x", x), change(edition), len(x)
        inverse = inverse_or_none(exact_matrix("covariance", covariance))
        if inverse is None or not reference:
            return False
        bound = to_fmpq(rules.representative_factor * rules.distance_threshold(lambda_0, k, n, 2 * k))

        def near(i: int, among: Sequence[int]) -> Fraction:
            gaps = rows_of(rows, among) - rows_of(rows, [i] * len(among))
            return Fraction(sum(v <= bound for v in mahalanobis_squared(gaps, inverse)), len(among))

        return all(abs(near(i, reference) - near(i, range(n))) <= share for i in range(n))

    return SimpleNamespace(is_degree_representative=holds)


_fault(
    "representative_of_the_other_edition",
    "near is 4 Lambda_2k where REPAIRED says 2, and the other way round",
    _representative(Fraction(1, 6), _other),
)
_fault(
    "representative_without_growth",
    "lambda_0 stands for Lambda_2k",
    _representative(
        Fraction(1, 6), lambda edition: replace(edition, distance_threshold=lambda lambda_0, _k, _n, _ell: lambda_0)
    ),
)
_fault(
    "representative_is_loose",
    "shares may differ by 1/3 and not by 1/6",
    _representative(Fraction(1, 3), lambda edition: edition),
)


def _concentrated(
    near: Callable[[Any, Any], bool] = operator.le, radius: int = 2, paired: bool = True, by_eq_24: bool = False
) -> Any:
    def holds(x: Any, lambda_0: Any) -> bool:
        rows, m = exact_matrix("x", x), len(x) // 2
        if m == 0:
            return False
        y = rows_of(rows, range(m)) - rows_of(rows, range(m, 2 * m)) if paired else exact_matrix("x", _centred(x))
        share = Fraction(1, 2 * m) if paired else Fraction(1, len(x))
        inverse = inverse_or_none(second_moment(y, [share] * y.nrows()))
        if inverse is None:
            return False
        for i in range(len(x)):
            gaps = rows - rows_of(rows, [i] * len(x))
            # Eq. (24) prints 1/(sqrt 2 m): distances are smaller by sqrt 2, and so are their squares compared squared.
            values = mahalanobis_squared(gaps, inverse)
            bound = to_fmpq(radius * Fraction(lambda_0))
            if not all(near(v * v, 2 * bound * bound) if by_eq_24 else near(v, bound) for v in values):
                return False
        return True

    return SimpleNamespace(is_well_concentrated=holds)


_fault("concentrated_by_eq_24", "the factor 1/(sqrt 2 m) that Eq. (24) prints", _concentrated(by_eq_24=True))
_fault("concentrated_is_strict", "a squared distance of 2 lambda_0 is too much", _concentrated(operator.lt))
_fault("concentrated_without_pairing", "the covariance about the mean, without pairing", _concentrated(paired=False))
_fault("concentrated_radius_is_single", "squared distances are compared with lambda_0", _concentrated(radius=1))


def _adjacent(judge: Callable[[Any, Any], bool]) -> Any:
    return SimpleNamespace(is_adjacent=lambda x, x_prime: bool(judge(np.asarray(x), np.asarray(x_prime))))


def _differing(x: Any, y: Any) -> int:
    return int((x != y).any(axis=1).sum())


_fault("adjacent_up_to_two", "two rows may differ", _adjacent(lambda x, y: _differing(x, y) <= 2))
_fault("adjacent_must_differ", "a data set is no neighbour of itself", _adjacent(lambda x, y: _differing(x, y) == 1))
_fault("adjacent_by_entries", "one entry and not one row may differ", _adjacent(lambda x, y: (x != y).sum() <= 1))
_fault(
    "adjacent_up_to_rounding",
    "rows that are equal up to rounding are equal",
    _adjacent(lambda x, y: (~np.isclose(x, y).all(axis=1)).sum() <= 1),
)
_fault(
    "adjacent_by_bits",
    "0 and -0 differ",
    _adjacent(lambda x, y: sum(a.tobytes() != b.tobytes() for a, b in zip(x, y, strict=True)) <= 1),
)
_fault(
    "adjacent_as_sets",
    "the order of the rows does not matter",
    _adjacent(lambda x, y: len({*map(tuple, x.tolist())} - {*map(tuple, y.tolist())}) <= 1),
)

# Whole algorithms -----------------------------------------------------------------------------------------------------


def _passes_in_float64(probability: Any, coin: Any) -> bool:
    return coin.bits / 2.0**256 < float(probability)


_fault("coin_in_float64", "the coin is compared with the law in float64", passes=_passes_in_float64)


def _private_covariance(
    budget: Callable[[Any], tuple[Any, Any]] = lambda p: (p.test_epsilon, p.test_delta),
    gates: Callable[[Any], bool] = refimpl.passes_gates,
    passes: Callable[[Any, Any], bool] = refimpl.ptr.coin_passes,
    edition: Callable[[Edition], Edition] = lambda edition: edition,
    release: Callable[[Any, Any, Any, Any], Any] = lambda x, p, covariance, z: refimpl.wishart_release(
        covariance, p.samples, z
    ),
) -> Any:
    def given(x: Any, p: Any, coins: Any) -> Any:
        released = None
        if gates(p):
            result = refimpl.stable_covariance(x, p.lambda_0, p.k, edition=p.edition)
            law = refimpl.ptr_pass_probability(result.score, *budget(p), edition=edition(p.edition))
            released = release(x, p, result.covariance, coins.normals) if passes(law, coins.test) else None
        return SimpleNamespace(covariance=released)

    return SimpleNamespace(private_covariance_given=given, draw_covariance_coins=refimpl.draw_covariance_coins)


_fault(
    "covariance_coin_always_passes",
    "Algorithm 5.1 releases whenever its gates let it",
    _private_covariance(passes=lambda law, coin: True),
)
_fault(
    "covariance_test_spends_the_whole_budget",
    "the test of Algorithm 5.1 is run with (epsilon, delta)",
    _private_covariance(budget=lambda p: (p.epsilon, p.delta)),
)
_fault(
    "covariance_gate_is_dropped",
    "any number of rows is let through to Algorithm 5.1",
    _private_covariance(gates=lambda p: p.n >= 2),
)
_fault(
    "covariance_coin_in_float64",
    "the coin of Algorithm 5.1 is compared in float64",
    _private_covariance(passes=_passes_in_float64),
)
_fault(
    "covariance_law_of_the_other_edition",
    "Algorithm 5.1 tests with the law of the other edition",
    _private_covariance(edition=_other),
)


# Of draws with a fault in floating point, what is not the fault is granted.
_NOISE_BITS = 40


def _as_floats(matrix: Any) -> Any:
    return np.array([[float(to_fraction(v)) for v in row] for row in matrix.tolist()])


def _scatter(draws: Any, samples: int) -> Any:
    return draws.T @ draws / samples


_fault(
    "covariance_release_without_noise",
    "Algorithm 5.1 releases its covariance as it is",
    _private_covariance(release=lambda x, p, covariance, z: _as_floats(covariance)),
    _NOISE_BITS,
)
_fault(
    "covariance_divides_by_one_less",
    "the sum over the N draws is divided by N - 1",
    _private_covariance(release=lambda x, p, covariance, z: refimpl.wishart_release(covariance, p.samples - 1, z)),
)
_fault(
    "covariance_divides_by_the_rows",
    "the sum over the N draws is divided by n",
    _private_covariance(release=lambda x, p, covariance, z: refimpl.wishart_release(covariance, p.n, z)),
)
_fault(
    "covariance_draws_are_standard",
    "the draws have the identity as covariance",
    _private_covariance(release=lambda x, p, covariance, z: _scatter(z, p.samples)),
    _NOISE_BITS,
)
_fault(
    "covariance_draws_are_centred",
    "the mean of the draws is subtracted",
    _private_covariance(
        release=lambda x, p, covariance, z: refimpl.wishart_release(covariance, p.samples, z - z.mean(axis=0))
    ),
    _NOISE_BITS,
)
_fault(
    "covariance_factor_is_transposed",
    "the transpose of the Cholesky factor makes the draws",
    _private_covariance(
        release=lambda x, p, covariance, z: _scatter(z @ np.linalg.cholesky(_as_floats(covariance)), p.samples)
    ),
    _NOISE_BITS,
)
_fault(
    "covariance_draws_have_the_square",
    "the covariance itself stands for its Cholesky factor",
    _private_covariance(release=lambda x, p, covariance, z: _scatter(z @ _as_floats(covariance), p.samples)),
    _NOISE_BITS,
)
_fault(
    "covariance_of_the_raw_rows",
    "the draws have the second moment of the rows, and not that of the pairs",
    _private_covariance(
        release=lambda x, p, covariance, z: refimpl.wishart_release(
            second_moment(exact_matrix("x", x), [Fraction(1, p.n)] * p.n), p.samples, z
        )
    ),
)
_fault(
    "covariance_without_the_half",
    "pairs have twice the covariance, and the draws too",
    _private_covariance(release=lambda x, p, covariance, z: refimpl.wishart_release(2 * covariance, p.samples, z)),
)


def _halves(x: Any, p: Any, coins: Any) -> tuple[Any, Any]:
    mean = refimpl.private_mean_given(x, p.mean, coins.mean).mean
    return mean, refimpl.private_covariance_given(x, p.covariance, coins.covariance).covariance


def _sure(coins: Any) -> Any:
    """The same coins, but both tests pass."""
    mean, covariance = (replace(half, test=replace(half.test, bits=0)) for half in (coins.mean, coins.covariance))
    return replace(coins, mean=mean, covariance=covariance)


def _private_gaussian(
    released: Callable[[bool, bool], bool] = operator.and_,
    gates: bool = True,
    halves: Callable[[Any, Any, Any], tuple[Any, Any]] = _halves,
) -> Any:
    def given(x: Any, p: Any, coins: Any) -> Any:
        fits = refimpl.passes_gates(p)
        # The vectors' coins are 0, which passes, and the largest there is, which fails at a score of 1.
        passes = released(coins.mean.test.bits == 0, coins.covariance.test.bits == 0)
        if (gates and not fits) or not passes:
            return SimpleNamespace(mean=None, covariance=None)
        if not fits:  # whatever it would be
            return SimpleNamespace(mean=np.zeros(p.mean.d), covariance=np.eye(p.mean.d))
        mean, covariance = halves(x, p, _sure(coins))
        return SimpleNamespace(mean=mean, covariance=covariance)

    return SimpleNamespace(private_gaussian_given=given, draw_covariance_coins=refimpl.draw_covariance_coins)


def _whole_budget(p: Any) -> dict[str, Any]:
    return {"epsilon": p.epsilon, "delta": p.delta, "lambda_0": p.mean.lambda_0, "edition": p.edition}


def _changed_mean(x: Any, p: Any, coins: Any, scale: Fraction, centre: int = 1) -> tuple[Any, Any]:
    covariance = refimpl.stable_covariance(x, p.mean.lambda_0, p.mean.k)
    mean = refimpl.stable_mean(x, covariance, p.mean.lambda_0, p.mean.k, coins.mean.reference).mean
    exact = [centre * to_fraction(v) for v in mean]
    return refimpl.gaussian_release(exact, covariance.covariance, scale, coins.mean.normals), _halves(x, p, coins)[1]


def _changed_draws(x: Any, p: Any, coins: Any, samples: int, *, twice: bool = False) -> tuple[Any, Any]:
    rows, m = exact_matrix("x", x), len(x) // 2
    # What Algorithm 5.2 prints, and REPAIRED leaves out: pairs, over sqrt 2, given to an algorithm that pairs on its own.
    paired = rows_of(rows, range(m)) - rows_of(rows, range(m, 2 * m)) if twice else rows
    covariance = refimpl.stable_covariance(paired, p.covariance.lambda_0, p.covariance.k).covariance
    normals = np.zeros((samples, p.mean.d))
    normals[: p.mean.d] = coins.covariance.normals[: p.mean.d]
    return _halves(x, p, coins)[0], refimpl.wishart_release(covariance / 2 if twice else covariance, samples, normals)


def _shared(x: Any, p: Any, coins: Any) -> tuple[Any, Any]:
    normals = np.zeros_like(coins.covariance.normals)
    normals[0] = coins.mean.normals
    return _halves(x, p, replace(coins, covariance=replace(coins.covariance, normals=normals)))


_fault(
    "gaussian_release_without_the_mean",
    "Algorithm 5.2 releases the noise of the mean without the mean",
    _private_gaussian(halves=lambda x, p, coins: _changed_mean(x, p, coins, p.mean.noise_scale, 0)),
)
_fault(
    "gaussian_mean_has_the_noise_of_the_whole_budget",
    "the mean of Algorithm 5.2 has the noise of (epsilon, delta), and not of half of each",
    _private_gaussian(
        halves=lambda x, p, coins: _changed_mean(
            x, p, coins, refimpl.mean_parameters(*x.shape, **_whole_budget(p)).noise_scale
        )
    ),
)
_fault(
    "gaussian_covariance_has_the_draws_of_the_whole_budget",
    "the covariance of Algorithm 5.2 has the N of (epsilon, delta), and not of half of each",
    _private_gaussian(
        halves=lambda x, p, coins: _changed_draws(
            x, p, coins, refimpl.covariance_parameters(*x.shape, **_whole_budget(p)).samples
        )
    ),
)
_fault(
    "gaussian_shares_its_noise",
    "the covariance of Algorithm 5.2 is made of the normals of its mean",
    _private_gaussian(halves=_shared),
)
_fault(
    "gaussian_pairs_twice",
    "line 3 of Algorithm 5.2 as printed: its pairs are paired again",
    _private_gaussian(halves=lambda x, p, coins: _changed_draws(x, p, coins, p.covariance.samples, twice=True)),
)


_fault(
    "gaussian_gate_is_dropped",
    "Algorithm 5.2 has no gate",
    _private_gaussian(operator.and_, gates=False),
)
_fault("gaussian_always_fails", "Algorithm 5.2 never releases", _private_gaussian(lambda mean, covariance: False))
_fault(
    "gaussian_needs_the_mean_alone",
    "the covariance half of Algorithm 5.2 may fail",
    _private_gaussian(lambda mean, _: mean),
)
_fault(
    "gaussian_needs_the_covariance_alone",
    "the mean half of Algorithm 5.2 may fail",
    _private_gaussian(lambda _, covariance: covariance),
)
