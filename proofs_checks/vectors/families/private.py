"""Families for whole algorithms with their coins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from proofs_checks.vectors.families.building import (
    Aim,
    Rows,
    array,
    bulk,
    family,
    moved,
    scaled,
    sheared,
)
from refimpl.parameters import EDITIONS, covariance_parameters, gaussian_parameters, mean_parameters
from refimpl.ptr import ptr_pass_probability

# Whole algorithms -----------------------------------------------------------------------------------------------------

PRIVATE_BUGS = (
    "coin_always_passes",
    "test_looks_at_score_1_alone",
    "test_looks_at_score_2_alone",
    "test_adds_the_scores",
    "test_spends_the_whole_budget",
    "size_gate_is_dropped",
    "noise_variance_as_deviation",
    "noise_ignores_the_covariance",
    "noise_has_the_square_of_the_covariance",
    "release_without_the_mean",
    "noise_factor_is_transposed",
    "coin_in_float64",
    "law_of_the_other_edition",
    "raw_rows_averaged",
    "reference_is_ignored",
)

WHOLE = (1 << 256) - 1
"""The largest number that a test's first 256 bits can be."""


def _coins_beside(law: Any) -> Iterator[tuple[str, int]]:
    """Numbers U just below and just above a probability, by 2^-30, and by so little that no float64 tells them apart."""
    middle = math.floor(law.enclosure(400).lower * (1 << 256))
    for slug, step in (
        ("below", -(1 << 226)),
        ("above", 1 << 226),
        ("just-below", -(1 << 40)),
        ("just-above", 1 << 40),
    ):
        if 0 <= middle + step <= WHOLE:
            yield slug, middle + step


def _near(slug: str) -> tuple[str, ...]:
    return ("NearTie",) if slug.startswith("just") else ()


def _outlier_data(n: int, j: int, values: tuple[float, float, float]) -> Rows:
    """Pairs (high, low), one pair (bulk, low), and pairs (bulk, 0): j outliers of the covariance stage."""
    (usual, high, low), m = values, n // 2
    first = [high] * j + [usual] * (m - j)
    second = [low] * (j + 1) + [0.0] * (m - j - 1)
    return [(v,) for v in first + second + [0.0] * (n - 2 * m)]


def _public(edition: str, delta: str, lambda_0: str) -> dict[str, Any]:
    return {
        "epsilon": Fraction(1),
        "delta": Fraction(delta),
        "lambda_0": Fraction(lambda_0),
        "edition": EDITIONS[edition],
    }


BUDGETS = (("REPAIRED", "9/10"), ("PRINTED", "1/10"))
"""As large a delta as an edition takes: k, and with it the least n, are then small."""


# Outliers of the data, and the larger of the two scores that they make. From three on, the pair (bulk, low) is one more.
MILD = {"REPAIRED": {0: 0, 1: 1, 2: 2, 3: 4, 4: 5, 6: 7, 8: 9, 9: 10, 11: 11}, "PRINTED": {3: 3}}
WILD = {"REPAIRED": {1: 2, 2: 4, 3: 6, 4: 8, 5: 10}, "PRINTED": {2: 4}}


@family
def _private_means() -> Iterator[Aim]:
    """Coins on both sides of the law. Few in PRINTED, where each costs a long run of exact arithmetic.

    Mild outliers are outliers of the covariance alone, so that SCORE_1 is the larger one. Wild ones are in R, too: every other
    row then has far rows in R, and SCORE_2 is twice their number.
    """
    for edition, delta in BUDGETS:
        public = _public(edition, delta, "3/2")
        n = mean_parameters(0, 1, **public).least_n
        p = mean_parameters(n, 1, **public)
        last, first = tuple(range(n - p.reference_size, n)), tuple(range(p.reference_size))
        sorts = (("mild", MILD, (32.0, 39.0, -7.0), last), ("wild", WILD, (1.0, 2.0**20, 0.0), first))
        for sort, scores, values, reference in sorts:
            for j, score in scores[edition].items():
                for slug, test in _coins_at(score, p)[: 4 if j == 3 else 2]:
                    arguments = {
                        "x": array(_outlier_data(n, j, values)),
                        **public,
                        "test": test,
                        "reference": reference,
                        "normals": np.array([1.5 - j]),
                    }
                    name = f"private-mean-{edition.lower()}-{sort}-{j}out-{slug}"
                    yield Aim(name, "private_mean_given", arguments, PRIVATE_BUGS, ("Outlier", *_near(slug)))


def _coins_at(score: int, parameters: Any) -> list[tuple[str, int]]:
    """Coins beside the law at a score, or the two ends where the law is 0 or 1."""
    p = parameters
    law = ptr_pass_probability(score, p.test_epsilon, p.test_delta, edition=p.edition)
    return [*_coins_beside(law)] if 0 < law < 1 else [("sure", 0), ("never", WHOLE)]


@family
def _private_means_in_the_plane() -> Iterator[Aim]:
    """The corners of a sheared square and their opposites, in one row more or less than the least n."""
    public = _public("REPAIRED", "9/10", "2")
    least = mean_parameters(0, 2, **public).least_n
    for short, shear, offset in ((0, 1.0, 0.0), (0, -3.0, 100.0), (-1, 0.0, 0.0), (1, 1.0, 0.0), (2, 0.0, 5.0)):
        n = least - short
        p, m = mean_parameters(n, 2, **public), (least - short) // 2
        corners = bulk(2, m)
        x = moved(sheared([*corners, *scaled(corners, -1.0), *[(0.0, 0.0)] * (n - 2 * m)], shear), offset)
        for what, normals in (("first", (1.0, 0.0)), ("mixed", (-2.0, 3.0))):
            arguments = {
                "x": array(x),
                **public,
                "test": 0,
                "reference": tuple(range(p.reference_size)),
                "normals": np.array(normals),
            }
            name = f"private-mean-plane-short{short}-shear{shear:g}-{what}"
            yield Aim(name, "private_mean_given", arguments, PRIVATE_BUGS, ("SizeGate",) if short else ())


COVARIANCE_BUGS = (
    "covariance_coin_always_passes",
    "covariance_test_spends_the_whole_budget",
    "covariance_gate_is_dropped",
    "covariance_coin_in_float64",
    "covariance_law_of_the_other_edition",
    "covariance_release_without_noise",
    "covariance_divides_by_one_less",
    "covariance_divides_by_the_rows",
    "covariance_draws_are_standard",
    "covariance_draws_are_centred",
    "covariance_factor_is_transposed",
    "covariance_draws_have_the_square",
    "covariance_of_the_raw_rows",
    "covariance_without_the_half",
)


@family
def _private_covariances() -> Iterator[Aim]:
    for edition, delta in BUDGETS:
        public = _public(edition, delta, "3/2")
        least = covariance_parameters(0, 1, **public).least_n
        for short, j in ((0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (5, 0)):
            n = least - short
            p = covariance_parameters(n, 1, **public)
            law = ptr_pass_probability(j, p.test_epsilon, p.test_delta, edition=p.edition)
            for slug, test in [("sure", 0), ("never", WHOLE), *_coins_beside(law)]:
                arguments = {
                    "x": array(_outlier_data(n, j, (1.0, 2.0**20, 0.0))),
                    **public,
                    "test": test,
                    "factor": np.array([[7.5 + j]]),
                }
                name = f"private-covariance-{edition.lower()}-short{short}-{j}out-{slug}"
                flags = (*(("Outlier",) if j else ()), *_near(slug))
                yield Aim(name, "private_covariance_given", arguments, COVARIANCE_BUGS, flags)


@family
def _private_covariances_in_the_plane() -> Iterator[Aim]:
    """A sheared square and its opposite, in the least n: L is no multiple of the identity, and does not commute with A."""
    public = _public("REPAIRED", "9/10", "2")
    n = covariance_parameters(0, 2, **public).least_n
    for shear, offset in ((1.0, 0.0), (-3.0, 100.0)):
        corners = bulk(2, n // 2)
        rows = [*corners, *scaled(corners, -1.0), *[(0.0, 0.0)] * (n % 2)]
        x = array(moved(sheared(rows, shear), offset))
        for what, factor in (
            ("units", ((1.0, 0.0), (0.0, 1.0))),
            ("first", ((16.0, 0.0), (0.0, 0.0))),
            ("mixed", ((5.0, 0.0), (-2.5, 9.0))),
            ("none", ((0.0, 0.0), (0.0, 0.0))),
        ):
            arguments = {"x": x, **public, "test": 0, "factor": np.array(factor)}
            name = f"private-covariance-plane-shear{shear:g}-{what}"
            yield Aim(name, "private_covariance_given", arguments, COVARIANCE_BUGS)


@family
def _private_gaussians() -> Iterator[Aim]:
    bugs = (
        "gaussian_needs_the_mean_alone",
        "gaussian_needs_the_covariance_alone",
        "gaussian_gate_is_dropped",
        "gaussian_always_fails",
        "gaussian_release_without_the_mean",
        "gaussian_mean_has_the_noise_of_the_whole_budget",
        "gaussian_covariance_has_the_draws_of_the_whole_budget",
        "gaussian_shares_its_noise",
        "gaussian_pairs_twice",
    )
    public = _public("REPAIRED", "9/10", "1")
    plan = gaussian_parameters(0, 1, **public)
    least = max(plan.mean.least_n, plan.covariance.least_n)
    for short, (slug, one, two) in product(
        (0, 2), (("both", 0, 0), ("mean", 0, WHOLE), ("covariance", WHOLE, 0), ("neither", WHOLE, WHOLE))
    ):
        n = least - short
        size = gaussian_parameters(n, 1, **public).mean.reference_size
        arguments: dict[str, Any] = {
            "x": array(_outlier_data(n, 1, (1.0, 2.0**20, 0.0))),  # a score of 1: neither test is certain to pass
            **public,
            "test": one,
            "test_covariance": two,
            "reference": tuple(range(size)),
            "normals": np.array([-1.25]),
            "factor": np.array([[6.5]]),
        }
        name = f"private-gaussian-short{short}-{slug}"
        yield Aim(name, "private_gaussian_given", arguments, bugs)
        for normal, factor in (
            ((0.5, 3.0), (2.0, 5.0), (-3.0, 1.0), (8.0, 12.5), (-0.75, 2.0)) if slug == "both" else ()
        ):
            noise = {"normals": np.array([normal]), "factor": np.array([[factor]])}
            yield Aim(f"{name}-normal{normal:g}-factor{factor:g}", "private_gaussian_given", arguments | noise, bugs)
