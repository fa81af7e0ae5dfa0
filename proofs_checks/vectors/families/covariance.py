"""Families for the covariance stage: good subsets, levels, scores, weights and pairing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from proofs_checks.vectors.families.building import (
    ULP,
    Aim,
    Rows,
    array,
    bulk,
    family,
    moved,
    norms,
    on_axis,
    scaled,
    sheared,
)
from refimpl.linalg import exact_matrix, inverse_or_none, mahalanobis_squared, second_moment, to_fraction

# LargestGoodSubset ----------------------------------------------------------------------------------------------------

SHARED_ROUNDING = ("float64", "float32", "tolerance")
SUBSET_BUGS = (
    "strict_for_non_strict",
    "divides_by_subset_size",
    "single_pass",
    "norms_are_not_squared",
    "sigma_is_not_inverted",
    "norms_are_centred",
    "rows_as_a_set",
    "divides_by_one_less",
    *SHARED_ROUNDING,
)
SINGULAR_BUGS = ("singular_is_regularized", "pseudo_inverse", "singular_raises", "singular_keeps_all", "float64")
SCALE_BUGS = ("float64", "float32", "tolerance", "singular_is_regularized", "pseudo_inverse", "single_pass")


def row_sets() -> Iterator[tuple[str, Rows, tuple[str, ...]]]:
    """Data sets with at most a few rows that matter, each with a name."""
    for d, m in ((1, 7), (1, 12), (2, 9), (2, 16), (3, 17), (4, 25)):
        for j, v in ((1, 3.0), (2, 5.0), (1, float(1 << 20))):
            yield f"d{d}-m{m}-{j}x{v:g}", bulk(d, m - j) + [on_axis(v, d)] * j, ("Outlier",)
    for d, m in ((1, 10), (2, 17)):
        yield f"d{d}-m{m}-first", [on_axis(4.0, d), *bulk(d, m - 1)], ("Outlier",)
        yield f"d{d}-m{m}-distinct", [tuple(v * (1 + i / 8) for v in r) for i, r in enumerate(bulk(d, m))], ()
        yield f"d{d}-m{m}-shifted", [*moved(bulk(d, m - 1), 3.0), on_axis(16.0, d)], ("Outlier",)
    for base, m in ((2.0, 6), (2.0, 10), (1.5, 8), (4.0, 5), (3.0, 9)):
        yield f"chain-{base:g}-m{m}", [(base**i,) for i in range(m)], ("Chain",)
        yield f"chain-{base:g}-m{m}-zeros", [(base**i,) for i in range(m)] + [(0.0,)] * m, ("Chain",)
    yield "chain-plane", [(2.0**i, 3.0 ** (i % 4)) for i in range(8)], ("Chain",)
    yield "chain-space", [(2.0**i, 3.0 ** (i % 4), float(i % 3 - 1)) for i in range(9)], ("Chain",)
    yield "tall-ties", [(float(i % 3 - 1), float(i % 5 - 2)) for i in range(15)], ()
    yield "grid-space", [(float(i % 3 - 1), float(i % 5 - 2), float(i % 2)) for i in range(20)], ()
    yield "thirds", [(1 / 3,)] * 5 + [(1.0,)], ()
    yield "tenths", [(i / 10, 1 - i / 10) for i in range(1, 9)], ()


def scaled_sets() -> Iterator[tuple[str, Rows, tuple[str, ...]]]:
    """The same kinds of data where squares overflow or underflow, or columns are very unlike."""
    one, plane = [*bulk(1, 8), (4.0,)], [*bulk(2, 12), (4.0, 0.0)]
    chain = [(2.0**i,) for i in range(8)]
    for name, factor in (
        ("1e150", 1e150),
        ("1e-150", 1e-150),
        ("1e200", 1e200),
        ("1e-200", 1e-200),
        ("1e307", 1e307),
        ("1e-308", 1e-308),
        ("denormal", 5e-324),
    ):
        yield f"line-{name}", scaled(one, factor), ("Outlier",)
        yield f"plane-{name}", scaled(plane, factor), ("Outlier",)
    yield "chain-1e300", scaled(chain, 1e300), ("Chain",)
    yield "chain-1e-320", scaled(chain, 1e-320), ("Chain",)
    yield "columns-1e150-1e-150", [(a * 1e150, b * 1e-150) for a, b in plane], ("Outlier",)
    yield "columns-1e100-1", [(a * 1e100, b) for a, b in plane], ("Outlier",)
    for shear in (1000.0, float(1 << 30), float(1 << 45)):
        yield f"shear-{shear:g}", sheared(plane, shear), ("Outlier",)
    yield "shear-space", sheared([*bulk(3, 16), on_axis(5.0, 3)], float(1 << 28)), ("Outlier",)
    yield "offset-2^45", moved(plane, float(1 << 45)), ("Offset",)
    yield "offset-2^26", moved(one, float(1 << 26)), ("Offset",)


def _lam_choices(rows: Rows) -> Iterator[tuple[str, Fraction]]:
    """Thresholds at the largest norms of the first pass and of the pass after it, beside them, and between them."""
    first = sorted(set(norms(rows)), reverse=True)
    for position, value in enumerate(first[:2], 1):
        yield f"tie{position}", value
        yield f"below{position}", value * (1 - ULP)
        yield f"above{position}", value * (1 + ULP)
    if len(first) > 1:
        yield "between", (first[0] + first[1]) / 2
        kept = [i for i, v in enumerate(norms(rows)) if v < first[0]]
        second = sorted(set(norms(rows, kept)), reverse=True)
        if second and second[0] < first[0]:  # with it as threshold the largest row goes and this one stays
            yield "second-tie", second[0]
            yield "second-below", second[0] * (1 - ULP)


@family
def _good_subsets_at_thresholds() -> Iterator[Aim]:
    sets = [(entry, SUBSET_BUGS) for entry in row_sets()] + [(entry, SCALE_BUGS) for entry in scaled_sets()]
    for (name, rows, flags), bugs in sets:
        for slug, lam in _lam_choices(rows):
            yield Aim(f"lgs-{name}-{slug}", "largest_good_subset", {"y": array(rows), "lam": lam}, bugs, flags)


def singular_sets() -> Iterator[tuple[str, Rows]]:
    """Rows that are dependent, at once or once an outlier that carries a direction is gone."""
    plane, space = bulk(2, 10), bulk(3, 16)
    yield "zero-row", [(0.0,)]
    yield "zero-rows", [(0.0, 0.0)] * 5
    yield "one-row-plane", [(1.0, 2.0)]
    yield "wider-than-tall", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0)]
    yield "wider-than-tall-4", [(1.0, 2.0, 3.0, 4.0), (4.0, 3.0, 2.0, 1.0), (1.0, 1.0, 1.0, 1.0)]
    yield "zero-column", [(a, 0.0) for a, _ in plane]
    yield "equal-columns", [(a, a) for a, _ in plane]
    yield "sum-column", [(a, b, a + b) for a, b in [(float(i % 3 - 1), float(5 * i % 7 - 3)) for i in range(12)]]
    yield "difference-column", [(a, b, a - b) for a, b in plane]
    yield "tenfold-column", [(a / 10, a) for a in (1.0, 2.0, 4.0, 8.0, 16.0)]
    yield "sum-column-tenths", [(i / 16, j / 16, (i + j) / 16) for i in range(4) for j in range(3)]
    yield "zero-column-huge", [(a * 1e200, 0.0) for a, _ in plane]
    yield "equal-columns-tiny", [(a * 1e-200, a * 1e-200) for a, _ in plane]
    yield "one-carrier", [(a, 0.0) for a, _ in plane] + [(0.0, 1.0)]
    yield "one-carrier-tiny", [(a, 0.0) for a, _ in plane] + [(1.0, 2.0**-40)]
    yield "two-carriers", [(a, 0.0) for a, _ in plane] + [(1.0, 1.0), (1.0, -1.0)]
    yield "space-one-carrier", [(a, b, a + b) for a, b, _ in space] + [(0.0, 0.0, 1.0)]
    yield "carrier-first", [(0.0, 64.0), *[(a, 0.0) for a, _ in plane]]


@family
def _good_subsets_of_dependent_rows() -> Iterator[Aim]:
    for name, rows in singular_sets():
        for lam in (Fraction(len(rows[0])), Fraction(4), Fraction(3 * len(rows), 2), Fraction(10**9)):
            arguments = {"y": array(rows), "lam": lam}
            yield Aim(f"lgs-{name}-lam{lam}", "largest_good_subset", arguments, SINGULAR_BUGS)


def _nearly_singular() -> Iterator[tuple[str, Rows]]:
    """Dependent columns but for one unit in the last place of one entry: regular, with a row of enormous leverage."""
    base = [(float(i % 3 - 1), float(5 * i % 7 - 3)) for i in range(12)]
    for at in (0, 5):
        rows = [(a, b, a + b) for a, b in base]
        rows[at] = (*rows[at][:2], float(np.nextafter(rows[at][2] or 1.0, np.inf)))
        yield f"sum-ulp-{at}", rows
    rows2 = [(a, a) for a in (1.0, 2.0, 3.0, 5.0, 7.0, 11.0)]
    rows2[2] = (3.0, float(np.nextafter(3.0, np.inf)))
    yield "equal-ulp", rows2
    yield "tenfold-rounded", [(i / 10, float(i)) for i in range(1, 9)]
    yield "sums-rounded", [(i / 10, j / 10, i / 10 + j / 10) for i in range(1, 4) for j in range(1, 4)]
    yield "equal-ulp-huge", scaled(rows2, 1e160)
    yield "thirds-rounded", [(i / 3, i / 7, i / 3 + i / 7) for i in (1, 2, 4, 5, 7)] + [(1.0, 0.0, 0.0)] * 3


@family
def _good_subsets_of_nearly_dependent_rows() -> Iterator[Aim]:
    bugs = (*SINGULAR_BUGS, "float32", "tolerance", "single_pass", "strict_for_non_strict")
    for name, rows in _nearly_singular():
        choices = [*_lam_choices(rows), ("d", Fraction(len(rows[0]))), ("all", Fraction(10**6))]
        for slug, lam in choices:
            yield Aim(f"lgs-{name}-{slug}", "largest_good_subset", {"y": array(rows), "lam": lam}, bugs)


@family
def _good_subsets_of_one_row() -> Iterator[Aim]:
    bugs = (
        "strict_for_non_strict",
        "single_pass",
        "divides_by_subset_size",
        "norms_are_not_squared",
        "constant_target",
    )
    for m, v in ((1, 1.0), (1, 1e-300), (2, 3.0), (3, 1e300)):
        rows = [(v,)] + [(0.0,)] * (m - 1)
        for slug, lam in (("tie", Fraction(m)), ("below", m * (1 - ULP)), ("half", Fraction(m, 2))):
            arguments = {"y": array(rows), "lam": lam}
            yield Aim(f"lgs-alone-m{m}-{v:g}-{slug}", "largest_good_subset", arguments, bugs, ("Outlier",))


# StableCovariance of rows given directly ------------------------------------------------------------------------------

LEVEL_BUGS = (
    "outlier_threshold_doubled",
    "outlier_threshold_halved",
    "outlier_threshold_grows_too_fast",
    "outlier_threshold_does_not_grow",
    "levels_start_from_the_last_set",
    "level_sets_that_are_not_nested",
    "scores_by_level_sizes",
    "score_is_not_capped",
    "score_of_the_first_level_alone",
    "score_without_the_level",
    "weights_from_levels_0_to_k",
    "weights_from_levels_k_on",
    "weights_are_not_averaged",
    "weights_are_normalized",
    "raw_rows_averaged",
    "covariance_is_centred",
    "strict_for_non_strict",
    "divides_by_subset_size",
    "single_pass",
    "float64",
    "float32",
    "thresholds_in_float64",
)


def entering(norm: Fraction, k: int, level: int, *, exactly: bool) -> Fraction:
    """lambda_0 for which a row of this norm enters at ``level``: lambda_level is the norm, or a little more."""
    lambda_0 = norm * (1 - Fraction(level, 10 * k))
    return lambda_0 if exactly else lambda_0 * (1 + Fraction(1, 1 << 20))


def outliers_of(d: int, m: int, j: int, value: float = 8.0) -> tuple[Rows, Fraction]:
    """A bulk with j equal outliers, and their norm."""
    rows = bulk(d, m - j) + [on_axis(value, d)] * j
    return rows, norms(rows)[-1]


@family
def _levels_at_which_outliers_enter() -> Iterator[Aim]:
    for k in (1, 2, 3, 4):
        for level, j in product(range(2 * k + 2), range(1, k + 2)):
            d = 1 + (level + j) % 3
            rows, norm = outliers_of(d, 12 + 4 * d + level, j)
            lambda_0 = entering(norm, k, level, exactly=(level + j) % 2 == 0)
            arguments = {"y": array(rows), "lambda_0": lambda_0, "k": k}
            name = f"moment-enter-k{k}-level{level}-{j}out-d{d}"
            yield Aim(name, "stable_second_moment", arguments, LEVEL_BUGS, ("Outlier",))


@family
def _two_kinds_of_outliers() -> Iterator[Aim]:
    """Milder ones that enter in the window of the score, wilder ones in that of the weights or never."""
    for k, j in ((2, 1), (3, 1), (3, 2), (4, 2), (4, 3)):
        for wild in (6.0, 8.0, 12.0, 2.0**20):
            rows = bulk(2, 18 + 2 * k) + [on_axis(5.0, 2)] * j + [on_axis(wild, 2)]
            kept = range(len(rows) - 1)
            for level in (1, k, k + 1, 2 * k):
                lambda_0 = entering(norms(rows, kept)[-1], k, level, exactly=False)
                arguments = {"y": array(rows), "lambda_0": lambda_0, "k": k}
                name = f"moment-two-k{k}-{j}out-wild{wild:g}-level{level}"
                yield Aim(name, "stable_second_moment", arguments, LEVEL_BUGS, ("Outlier",))


@family
def _adjacent_rows() -> Iterator[Aim]:
    """Pairs of neighbours whose one row decides whether outliers are in or out."""
    for k, j in ((1, 1), (2, 1), (2, 2), (3, 2), (4, 3)):
        for level in (0, k, k + 1, 2 * k):
            rows, norm = outliers_of(1, 14 + 3 * k, j)
            lambda_0 = entering(norm, k, level, exactly=True)
            for change, row in (("zero", (0.0,)), ("outlier", (8.0,)), ("huge", (2.0**40,))):
                name = f"moment-pair-k{k}-level{level}-{j}out-{change}"
                first = {"y": array(rows), "lambda_0": lambda_0, "k": k}
                second = {"y": array([row, *rows[1:]]), "lambda_0": lambda_0, "k": k}
                if change == "zero":
                    yield Aim(
                        f"moment-pair-k{k}-level{level}-{j}out", "stable_second_moment", first, LEVEL_BUGS, ("Outlier",)
                    )
                flags = ("Outlier", f"AdjacentPairOf:moment-pair-k{k}-level{level}-{j}out")
                yield Aim(name, "stable_second_moment", second, LEVEL_BUGS, flags)


@family
def _scaled_moments() -> Iterator[Aim]:
    bugs = (
        *SCALE_BUGS,
        "raw_rows_averaged",
        "weights_are_normalized",
        "thresholds_in_float64",
        "covariance_is_centred",
    )
    for name, rows, flags in scaled_sets():
        found = norms(rows)
        for k, level in ((1, 0), (2, 3), (3, 2)):
            if found:
                arguments = {"y": array(rows), "lambda_0": entering(max(found), k, level, exactly=level != 3), "k": k}
                yield Aim(f"moment-{name}-k{k}-level{level}", "stable_second_moment", arguments, bugs, flags)


@family
def _chains_and_ties_of_all_levels() -> Iterator[Aim]:
    for name, rows, flags in row_sets():
        if "chain" in name or name in {"tall-ties", "grid-space", "thirds", "tenths"}:
            found = sorted(set(norms(rows)), reverse=True)
            for k, level in ((1, 1), (2, 0), (2, 4), (3, 3)):
                lambda_0 = entering(found[min(1, len(found) - 1)], k, level, exactly=True)
                arguments = {"y": array(rows), "lambda_0": lambda_0, "k": k}
                yield Aim(f"moment-{name}-k{k}-level{level}", "stable_second_moment", arguments, LEVEL_BUGS, flags)


@family
def _singular_moments() -> Iterator[Aim]:
    bugs = (*SINGULAR_BUGS, "score_is_not_capped", "weights_are_normalized", "raw_rows_averaged")
    for name, rows in [*singular_sets(), *_nearly_singular()]:
        for k, lambda_0 in ((1, Fraction(4)), (3, Fraction(2 * len(rows[0]))), (2, Fraction(9 * len(rows), 10))):
            arguments = {"y": array(rows), "lambda_0": lambda_0, "k": k}
            yield Aim(f"moment-{name}-k{k}", "stable_second_moment", arguments, bugs)


# StableCovariance with its pairing ------------------------------------------------------------------------------------

PAIRING_BUGS = (
    "covariance_not_halved",
    "no_pairing",
    "pairs_with_the_next_row",
    "odd_row_is_paired_again",
    "pairs_of_neighbours",
    "pairs_from_both_ends",
    "rows_are_sorted_first",
    "all_pairs",
)
PAIRED_BUGS = (*PAIRING_BUGS, *LEVEL_BUGS)


def unpaired(y: Rows, centres: Rows, last: Rows) -> Rows:
    """Rows x whose differences x_i - x_{i+m} are y, about given centres; and rows that have no partner."""
    first = [tuple(a + c for a, c in zip(row, centre, strict=True)) for row, centre in zip(y, centres, strict=True)]
    return [*first, *centres, *last]


@family
def _pairs_and_the_odd_row() -> Iterator[Aim]:
    for k, d, odd in product((1, 2, 3), (1, 2), (0, 1)):
        for level in (0, k, k + 1, 2 * k, 2 * k + 1):
            j = 1 + level % k
            y, norm = outliers_of(d, 10 + 4 * d + level, j)
            centres = [on_axis(float(i // 4), d) for i in range(len(y))]
            x = unpaired(y, centres, [on_axis(500.0, d)] * odd)
            arguments = {"x": array(x), "lambda_0": entering(norm, k, level, exactly=level % 2 == 0), "k": k}
            name = f"paired-k{k}-d{d}-level{level}-odd{odd}"
            yield Aim(name, "stable_covariance", arguments, PAIRED_BUGS, ("Outlier",))


@family
def _pairs_far_from_the_origin() -> Iterator[Aim]:
    bugs = ("float32_rows", *PAIRING_BUGS, "float64", "float32", "norms_are_centred")
    for name, offset in (("2^45", 2.0**45), ("2^30", 2.0**30), ("1e15", 1e15), ("-2^50", -(2.0**50))):
        for d, k, level in ((1, 1, 0), (1, 2, 3), (2, 2, 4), (3, 1, 2), (2, 3, 1)):
            y, norm = outliers_of(d, 11 + 3 * d, 1)
            x = moved(unpaired(y, [(0.0,) * d] * len(y), []), offset)
            arguments = {"x": array(x), "lambda_0": entering(norm, k, level, exactly=True), "k": k}
            yield Aim(f"paired-offset-{name}-d{d}-k{k}", "stable_covariance", arguments, bugs, ("Outlier", "Offset"))


@family
def _pairs_whose_difference_is_no_float() -> Iterator[Aim]:
    """x_i - x_{i+m} needs more than 53 bits, or overflows: the difference must not be rounded."""
    bugs = ("float64", "differences_in_float64", "float32", *PAIRING_BUGS)
    for name, big, small in (
        ("2^53", 2.0**53, 1.0),
        ("2^60", 2.0**60, 0.5),
        ("1e16", 1e16, 0.3),
        ("1e308", 1.5e308, 1e308),
        ("1e300", 1e300, 1.0),
        ("1e-300", 1.0, 1e-300),
        ("tenths", 0.3, 0.1),
        ("thirds", 1 / 3, 1e-17),
    ):
        x = [(big,)] * 6 + [(-big,)] * 3 + [(small,)] * 9
        y = [(Fraction(a[0]) - Fraction(b[0]),) for a, b in zip(x[:9], x[9:], strict=True)]
        found = sorted(set(_exact_norms(y)), reverse=True)
        for slug, lambda_0 in (("tie", found[0]), ("below", found[0] * (1 - ULP)), ("last", found[-1])):
            for k in (1, 2):
                arguments = {"x": array(x), "lambda_0": lambda_0, "k": k}
                yield Aim(f"paired-inexact-{name}-{slug}-k{k}", "stable_covariance", arguments, bugs)


def _exact_norms(rows: Sequence[tuple[Fraction, ...]]) -> list[Fraction]:
    matrix = exact_matrix("y", [list(row) for row in rows])
    inverse = inverse_or_none(second_moment(matrix, [Fraction(1, len(rows))] * len(rows)))
    return [] if inverse is None else [to_fraction(v) for v in mahalanobis_squared(matrix, inverse)]


@family
def _scaled_pairs() -> Iterator[Aim]:
    bugs = ("float64", "float32", *PAIRING_BUGS, "tolerance")
    for name, rows, flags in scaled_sets():
        if name.startswith(("line-1e", "plane-1e", "columns", "shear", "chain")):
            x = unpaired(rows, [(0.0,) * len(rows[0])] * len(rows), [rows[-1]])
            for k, level in ((1, 1), (2, 3)):
                arguments = {"x": array(x), "lambda_0": entering(max(norms(rows)), k, level, exactly=True), "k": k}
                yield Aim(f"paired-{name}-k{k}", "stable_covariance", arguments, bugs, flags)


@family
def _few_rows_in_pairs() -> Iterator[Aim]:
    bugs = (*PAIRING_BUGS, "singular_raises", "singular_keeps_all", "pseudo_inverse", "constant_target")
    for name, x in (
        ("two", [(1.0,), (3.0,)]),
        ("three", [(1.0,), (3.0,), (100.0,)]),
        ("equal", [(5.0,)] * 7),
        ("five", [(float(i),) for i in range(1, 6)]),
        ("equal-pairs", [(1.0, 2.0), (3.0, 4.0)] * 2),
        ("plane", [(float(i % 3), float(i * i % 7)) for i in range(9)]),
        ("space", [(float(i % 3), float(i * i % 7), float(i)) for i in range(11)]),
        ("trend", [(float(i), float(i * i)) for i in range(13)]),
    ):
        for k, lambda_0 in product((1, 2), (Fraction(2), Fraction(7, 2))):
            arguments = {"x": array(x), "lambda_0": lambda_0, "k": k}
            yield Aim(f"paired-few-{name}-k{k}-{lambda_0.numerator}", "stable_covariance", arguments, bugs)


@family
def _adjacent_in_pairs() -> Iterator[Aim]:
    for k, j in ((1, 1), (2, 1), (2, 2), (3, 2)):
        for level in (0, k + 1, 2 * k):
            y, norm = outliers_of(1, 13 + 2 * k, j)
            x = unpaired(y, [(0.0,)] * len(y), [(9.0,)])
            lambda_0, m = entering(norm, k, level, exactly=True), len(y)
            base = f"paired-pair-k{k}-level{level}-{j}out"
            yield Aim(
                base, "stable_covariance", {"x": array(x), "lambda_0": lambda_0, "k": k}, PAIRED_BUGS, ("Outlier",)
            )
            for change, at, row in (("first", 0, (0.0,)), ("partner", m, (8.0,)), ("odd", 2 * m, (-1e300,))):
                other = [*x[:at], row, *x[at + 1 :]]
                flags = ("Outlier", f"AdjacentPairOf:{base}")
                arguments = {"x": array(other), "lambda_0": lambda_0, "k": k}
                yield Aim(f"{base}-{change}", "stable_covariance", arguments, PAIRED_BUGS, flags)
