"""Families for the mean stage, and for both stages together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from proofs_checks.vectors.families.building import (
    ULP,
    Aim,
    Row,
    Rows,
    array,
    beside,
    bulk,
    family,
    moved,
    scaled,
    sheared,
)
from proofs_checks.vectors.families.covariance import (
    entering,
    outliers_of,
    unpaired,
)
from refimpl.linalg import exact_matrix, inverse_or_none, mahalanobis_squared, to_fraction
from refimpl.parameters import Lambda_ell

# LargestCore ----------------------------------------------------------------------------------------------------------

CORE_BUGS = (
    "mean_strict_for_non_strict",
    "row_is_not_its_own_neighbour",
    "last_row_ignored",
    "mean_ignores_the_odd_row",
    "mean_sigma_is_not_inverted",
    "reference_is_ignored",
    "core_radius_is_not_doubled",
    "degree_must_exceed_tau",
    "reference_is_a_prefix",
    "distances_are_not_squared",
    "neighbours_as_a_set",
    "float64",
    "float32",
    "tolerance",
    "expanded_distances",
)
MATRICES: dict[int, list[tuple[str, list[list[float]]]]] = {
    1: [("one", [[1.0]]), ("four", [[4.0]]), ("tenth", [[0.1]])],
    2: [
        ("identity", [[1.0, 0.0], [0.0, 1.0]]),
        ("correlated", [[2.0, 1.0], [1.0, 3.0]]),
        ("tenths", [[0.3, 0.1], [0.1, 0.7]]),
    ],
    3: [("correlated", [[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])],
}


def squared_distance(a: Row, b: Row, matrix: Sequence[Sequence[float]]) -> Fraction:
    """The exact squared distance of two rows in the inverse of a matrix."""
    inverse = inverse_or_none(exact_matrix("covariance", [list(row) for row in matrix]))
    assert inverse is not None, "the matrices of the families are regular"
    gap = exact_matrix("x", [[Fraction(u) - Fraction(v) for u, v in zip(a, b, strict=True)]])
    return to_fraction(mahalanobis_squared(gap, inverse)[0])


def _core(
    name: str, x: Rows, matrix: Any, lam: Fraction, tau: int, reference: Sequence[int], bugs: Any, *flags: str
) -> Aim:
    arguments = {"x": array(x), "covariance": array(matrix), "lam": lam, "tau": tau, "reference": tuple(reference)}
    return Aim(f"core-{name}", "largest_core", arguments, bugs, flags)


@family
def _cores_at_the_radius() -> Iterator[Aim]:
    """Two clusters whose distance is twice lam, and a degree that the one must have in the other."""
    for d in (1, 2, 3):
        for name, matrix in MATRICES[d]:
            near, far = (0.0,) * d, tuple(3.0 + i for i in range(d))
            for share, n in ((1, 9), (4, 11)):
                x = [near] * (n - share) + [far] * share
                reference = [*range(1, 5), *range(n - min(share, 2), n)]
                for slug, bound in beside(squared_distance(near, far, matrix)):
                    for tau in (len(reference), min(share, 2) + 1):
                        label = f"radius-d{d}-{name}-n{n}-{slug}-tau{tau}"
                        yield _core(label, x, matrix, bound / 2, tau, reference, CORE_BUGS)


@family
def _cores_on_a_grid() -> Iterator[Aim]:
    """A row more or less for each step of lam: every distance is met, with degrees at tau and one beside it."""
    for n, step in ((9, 1), (12, 2), (15, 3)):
        x = [(float(i),) for i in range(n)]
        reference = tuple(range(0, n, step))
        for radius, tau in product((1, 2, 4), (1, 2, 3)):
            lam = Fraction(radius * radius, 2)
            for slug, bound in (("tie", lam), ("below", lam * (1 - ULP))):
                yield _core(
                    f"grid-n{n}-step{step}-r{radius}-tau{tau}-{slug}", x, [[1.0]], bound, tau, reference, CORE_BUGS
                )


@family
def _cores_far_from_the_origin() -> Iterator[Aim]:
    for name, offset in (("2^45", 2.0**45), ("2^30", 2.0**30), ("1e15", 1e15), ("2^52", 2.0**52)):
        for label, matrix in MATRICES[2]:
            x = moved([(0.0, 0.0)] * 6 + [(1.0, 2.0)] * 3, offset)
            bound = squared_distance(x[0], x[-1], matrix)
            for slug, value in beside(bound):
                arguments = (x, matrix, value / 2, 4, range(1, 9, 2), CORE_BUGS, "Offset")
                yield _core(f"offset-{name}-{label}-{slug}", *arguments)


@family
def _cores_at_every_scale() -> Iterator[Aim]:
    for name, factor in (("1e150", 1e150), ("1e-150", 1e-150), ("1e160", 1e160), ("1e-170", 1e-170), ("1e307", 1e307)):
        x = scaled([(0.0,)] * 5 + [(3.0,)] * 2 + [(-5.0,)], factor)
        for variance in (1.0, factor if 1e-300 < factor < 1e300 else 1e300):
            bound = squared_distance(x[0], x[5], [[variance]])
            for slug, value in beside(bound):
                label = f"scale-{name}-variance{variance:g}-{slug}"
                yield _core(label, x, [[variance]], value / 2, 4, (0, 1, 2, 5, 6), CORE_BUGS)


@family
def _cores_of_few_or_singular() -> Iterator[Aim]:
    bugs = ("singular_core_keeps_all", "pseudo_inverse", "singular_raises", *CORE_BUGS)
    x = [(0.0, 0.0)] * 3 + [(1.0, 1.0)] * 2 + [(2.0, 0.0)]
    singular = [
        ("zero", [[0.0, 0.0], [0.0, 0.0]]),
        ("rank-one", [[1.0, 1.0], [1.0, 1.0]]),
        ("axis", [[1.0, 0.0], [0.0, 0.0]]),
    ]
    singular += [("thin", [[1.0, 0.0], [0.0, 1e-300]]), ("almost", [[1.0, 1.0], [1.0, 1.0 + 2.0**-52]])]
    for (name, matrix), tau in product(singular, (-1, 0, 1, 3)):
        yield _core(f"singular-{name}-tau{tau}", x, matrix, Fraction(1), tau, (0, 3, 5), bugs)
    for tau, reference in product((0, 1, 2), ((), (0,), (5,), (0, 5), tuple(range(6)))):
        arguments = (x, [[2.0, 1.0], [1.0, 3.0]], Fraction(1, 2), tau, reference, bugs)
        yield _core(f"few-tau{tau}-r{len(reference)}-{sum(reference)}", *arguments)


# StableMean -----------------------------------------------------------------------------------------------------------

MEAN_BUGS = (
    "distance_threshold_doubled",
    "distance_threshold_doubled_twice",
    "distance_threshold_halved",
    "distance_threshold_does_not_grow",
    "degree_threshold_is_fixed",
    "degree_threshold_is_halved",
    "mean_scores_by_level_sizes",
    "mean_score_counts_every_other_row",
    "mean_weights_from_levels_0_to_k",
    "mean_weights_are_not_averaged",
    "mean_weights_do_not_sum_to_one",
    "zero_mean",
    "raw_rows_averaged",
    "level_sets_that_are_not_nested",
    "mean_strict_for_non_strict",
    "row_is_not_its_own_neighbour",
    "last_row_ignored",
    "mean_ignores_the_odd_row",
    "mean_sigma_is_not_inverted",
    "reference_is_ignored",
    "mean_score_is_not_capped",
    "gamma_of_the_pairs",
    "float64",
    "float32",
    "expanded_distances",
)


def lambda_0_at(bound: Fraction, n: int, level: int, *, inside: bool) -> Fraction:
    """A short lambda_0 with Lambda_level just above half of a squared distance, or just below it."""
    low, high = Fraction(0), min(bound, Fraction(9 * n, 50))
    for _ in range(44):
        middle = (low + high) / 2
        if Lambda_ell(middle, n, level) * 2 >= bound:
            high = middle
        else:
            low = middle
    return high if inside else low


def _mean(name: str, x: Rows, matrix: Any, lambda_0: Fraction, k: int, reference: Sequence[int], *flags: str) -> Aim:
    arguments = {
        "x": array(x),
        "covariance": array(matrix),
        "lambda_0": lambda_0,
        "k": k,
        "reference": tuple(reference),
    }
    return Aim(f"mean-{name}", "stable_mean", arguments, MEAN_BUGS, flags)


@family
def _means_with_far_rows_that_enter_by_degree() -> Iterator[Aim]:
    """Far rows that are near all of R but ``away`` rows of it: they enter at level ``away``."""
    for k in (1, 2, 3, 4):
        for away, j in product(range(2 * k + 2), range(1, k + 2)):
            n = 24 + 6 * k + (away + j) % 2
            size = 4 * k + 2
            x = [(2.0,)] * away + [(0.0,)] * (n - away - j) + [(-2.0,)] * j
            reference = range(size)
            yield _mean(f"degree-k{k}-away{away}-{j}far", x, [[1.0]], Fraction(3), k, reference, "Outlier")


@family
def _means_with_far_rows_that_enter_by_distance() -> Iterator[Aim]:
    for k in (1, 2, 3, 4):
        for level, inside in product(range(2 * k + 1), (True, False)):
            d = 1 + level % 2
            j, n = 1 + level % k, 26 + 6 * k + level % 2
            matrix = MATRICES[d][1][1]
            near, far = (1.0,) * d, tuple(6.0 + i for i in range(d))
            x = [near] * (n - j) + [far] * j
            lambda_0 = lambda_0_at(squared_distance(near, far, matrix), n, level, inside=inside)
            name = f"distance-k{k}-level{level}-{'in' if inside else 'out'}"
            yield _mean(name, x, matrix, lambda_0, k, range(4 * k + 1), "Outlier")


@family
def _means_at_exact_ties() -> Iterator[Aim]:
    """2 Lambda_0 = 2 lambda_0, or 2 Lambda_1, equal to a squared distance exactly."""
    for k, n, d in product((1, 2, 3), (31, 40), (1, 2)):
        for name, matrix in MATRICES[d][:2]:
            near, far = (0.0,) * d, tuple(2.0 + i for i in range(d))
            half = squared_distance(near, far, matrix) / 2
            x = [near] * (n - 2) + [far] * 2
            for level, lambda_0 in ((0, half), (1, half / (1 + Fraction(50, 9) * half / n))):
                if lambda_0 < Fraction(9 * n, 50):
                    label = f"tie-k{k}-n{n}-d{d}-{name}-level{level}"
                    yield _mean(label, x, matrix, lambda_0, k, range(2 * k + 3), "Outlier")


@family
def _means_far_away_and_at_every_scale() -> Iterator[Aim]:
    for name, factor, offset in (
        ("2^45", 1.0, 2.0**45),
        ("1e15", 1.0, 1e15),
        ("2^52", 1.0, 2.0**52),
        ("1e150", 1e150, 0.0),
        ("1e-150", 1e-150, 0.0),
        ("1e200", 1e200, 0.0),
        ("1e307", 1e307, 0.0),
        ("1e-300", 1e-300, 0.0),
    ):
        for k, level in ((1, 0), (2, 3), (2, 4), (3, 2)):
            x = moved(scaled([(0.0,)] * 30 + [(1.0,)] * 3 + [(4.0,)] * 2, factor), offset)
            variance = min(max(factor * factor, 1e-300), 1e300)
            bound = squared_distance(x[0], x[-1], [[variance]])
            if bound >= 2 * Fraction(9 * 35, 50) or bound < Fraction(1, 1 << 60):
                variance = factor if math.isfinite(factor) else 1.0
                bound = squared_distance(x[0], x[-1], [[variance]])
            if not Fraction(1, 1 << 900) < bound < 10:
                variance, bound = 1e308, squared_distance(x[0], x[-1], [[1e308]])
            lambda_0 = lambda_0_at(bound, len(x), level, inside=True) if bound < 10 else Fraction(2)
            yield _mean(f"far-{name}-k{k}-level{level}", x, [[variance]], lambda_0, k, range(28 - 2 * k, 33))


@family
def _means_of_adjacent_rows() -> Iterator[Aim]:
    for k, j in ((1, 1), (2, 1), (3, 2), (4, 3)):
        for away in (0, 1, k, k + 1, 2 * k):
            n, base = 25 + 6 * k, f"pair-k{k}-away{away}-{j}far"
            x = [(2.0,)] * away + [(0.0,)] * (n - away - j) + [(-2.0,)] * j
            reference = range(4 * k + 2)
            yield _mean(base, x, [[1.0]], Fraction(3), k, reference, "Outlier")
            for change, at, row in (("away", away, (2.0,)), ("far", n - j - 1, (-2.0,)), ("huge", 0, (1e300,))):
                other = [*x[:at], row, *x[at + 1 :]]
                name = f"{base}-{change}"
                yield _mean(name, other, [[1.0]], Fraction(3), k, reference, "Outlier", f"AdjacentPairOf:mean-{base}")


@family
def _means_with_odd_references() -> Iterator[Aim]:
    """References that are tiny, are all rows, or sit in the wrong place."""
    x = [(0.0,)] * 20 + [(1.5,)] * 9 + [(9.0,)] * 2
    places: list[tuple[str, Sequence[int]]] = [
        ("one", (0,)),
        ("two", (0, 30)),
        ("outliers", (29, 30)),
        ("tail", range(18, 31)),
        ("every", range(31)),
        ("spread", range(0, 31, 3)),
        ("middle", range(15, 25)),
    ]
    for (name, reference), k, lambda_0 in product(places, (1, 2, 3), (Fraction(1), Fraction(2))):
        yield _mean(f"reference-{name}-k{k}-{lambda_0}", x, [[1.0]], lambda_0, k, reference)


@family
def _means_in_singular_matrices() -> Iterator[Aim]:
    bugs = ("singular_core_keeps_all", "pseudo_inverse", "singular_raises", "mean_score_is_not_capped", *MEAN_BUGS)
    x = [(float(i % 3), float(i % 2)) for i in range(21)]
    for name, matrix in (
        ("zero", [[0.0, 0.0], [0.0, 0.0]]),
        ("rank-one", [[1.0, 1.0], [1.0, 1.0]]),
        ("axis", [[1.0, 0.0], [0.0, 0.0]]),
        ("almost", [[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]),
        ("thin", [[1.0, 0.0], [0.0, 1e-300]]),
    ):
        for k in (1, 2, 3):
            aim = _mean(f"singular-{name}-k{k}", x, matrix, Fraction(2), k, range(9))
            yield Aim(aim.id, aim.group, aim.arguments, bugs)


# Both stages ----------------------------------------------------------------------------------------------------------

PIPELINE_BUGS = (
    "covariance_is_rounded",
    "covariance_not_halved",
    "no_pairing",
    "pairs_with_the_next_row",
    "odd_row_is_paired_again",
    "mean_ignores_the_odd_row",
    "weights_are_normalized",
    "weights_from_levels_0_to_k",
    "weights_are_not_averaged",
    "raw_rows_averaged",
    "zero_mean",
    "mean_sigma_is_not_inverted",
    "distance_threshold_halved",
    "distance_threshold_doubled",
    "degree_threshold_is_fixed",
    "mean_weights_do_not_sum_to_one",
    "outlier_threshold_does_not_grow",
    "float64",
)


def _pipeline(name: str, x: Rows, lambda_0: Fraction, k: int, reference: Sequence[int], *flags: str) -> Aim:
    arguments = {"x": array(x), "lambda_0": lambda_0, "k": k, "reference": tuple(reference)}
    return Aim(f"pipeline-{name}", "pipeline", arguments, PIPELINE_BUGS, flags)


@family
def _covariances_that_no_float_holds() -> Iterator[Aim]:
    """Sigma = 2/3 or the like, and rows at distance 2 Lambda exactly in it: a rounded Sigma decides otherwise."""
    reference = (0, 20, 21, 30, 31, 32, 33)
    base = [(1.0,)] * 20 + [(2.0,)] * 5 + [(0.0,)] * 35
    for k, scale in product((1, 2, 3), (1.0, 3.0, 0.1, 1e-5, 1e10)):
        yield _pipeline(f"exact-k{k}-scale{scale:g}", scaled(base, scale), Fraction(3), k, reference)
    for n, share, k in product((14, 22, 26, 38, 46), (1, 2), (1, 2)):
        m = n // 2
        x = [(1.0,)] * m + [(0.0,)] * m
        x[: 3 * share] = [(3.0,)] * (3 * share)
        sigma = Fraction(sum(int(a[0] - b[0]) ** 2 for a, b in zip(x[:m], x[m:], strict=True)), 2 * m)
        lambda_0 = 9 / sigma / 2
        if lambda_0 < Fraction(9 * n, 50):
            yield _pipeline(f"tie-n{n}-{share}-k{k}", x, lambda_0, k, range(m, m + 5))


@family
def _outliers_of_either_stage() -> Iterator[Aim]:
    for k in (1, 2, 3):
        levels = dict.fromkeys(((0, 1), (k - 1, k), (k, 1), (k + 1, 1), (2 * k, k), (1, k + 1)))
        for (level, j), both, odd in product(levels, (0, 1), (0, 1)):
            m = 28 + 8 * k
            y, norm = outliers_of(1, m, j, 4.0)
            centres = [(0.0,)] * m
            if both:  # both rows of a pair move: an outlier of the mean and not of the covariance
                centres[3] = (60.0,)
            x = unpaired([(v[0] / 2,) for v in y], centres, [(0.25,)] * odd)
            lambda_0 = entering(norm, k, level, exactly=False)
            if lambda_0 < Fraction(9 * len(x), 50):
                name = f"outliers-k{k}-level{level}-{j}out-both{both}-odd{odd}"
                yield _pipeline(name, x, lambda_0, k, range(m, m + 4 * k + 2), "Outlier")


@family
def _pipelines_in_the_plane() -> Iterator[Aim]:
    for shear, offset, k in product((0.0, 3.0, 1000.0), (0.0, 10.0, 2.0**45), (1, 2)):
        y = sheared([*bulk(2, 24), (2.0, 0.0)], shear)
        x = moved(unpaired(y, [(0.0, 0.0)] * 25, [(1.0, 1.0)]), offset)
        flags = ("Offset",) if offset > 100 else ()
        yield _pipeline(f"plane-shear{shear:g}-offset{offset:g}-k{k}", x, Fraction(5), k, range(20, 33), *flags)
