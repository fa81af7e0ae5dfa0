"""Families for what needs no algorithm: the law of the test, parameters, releases and definitions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from proofs_checks.vectors.families.building import (
    Aim,
    array,
    beside,
    bulk,
    family,
    norms,
)
from proofs_checks.vectors.families.covariance import (
    row_sets,
    singular_sets,
)
from refimpl.parameters import EDITIONS, covariance_parameters, mean_parameters

# The test -------------------------------------------------------------------------------------------------------------

LAW_BUGS = (
    "tau_without_four",
    "law_is_one_sided",
    "steep_law",
    "law_without_an_end",
    "coin_always_passes_law",
    "law_of_the_other_edition",
    "law_one_score_late",
    "law_in_float64",
    "law_is_not_clipped",
    "delta_is_not_divided",
)


def _law_scores(growth: Fraction, delta: Fraction) -> list[int]:
    """Scores at both ends of the laws, at their middle, and beside each."""
    a = delta / (growth**2 - 1)
    turning = 1 + 1 / (2 * a)
    middle = next(z for z in range(10**4) if growth**z >= turning)
    end = next(z for z in range(10**4) if growth**z >= turning**2)
    tau = next(z for z in range(4, 10**4) if growth ** (z - 4) >= (1 - delta) / delta)
    near = {
        0,
        1,
        2,
        3,
        middle - 1,
        middle,
        middle + 1,
        end - 4,
        end - 3,
        end - 1,
        end,
        end + 1,
        tau - 4,
        tau - 1,
        tau,
        2 * end,
    }
    return sorted(z for z in {*near, 5000} if z >= 0)


@family
def _laws_at_rational_growth() -> Iterator[Aim]:
    budgets = [("3/2", "1/16"), ("2", "1/20"), ("5/4", "1/1000"), ("11/10", "1/100"), ("3", "1/1000000000")]
    # Where a branch of a law ends at an integer score, exactly: g^{Z*/2} = g^4, and g^{tau - 4} = g^3.
    budgets += [
        ("2", "1/10"),
        ("3/2", str(Fraction(5, 4) / (2 * (Fraction(3, 2) ** 4 - 1)))),
        ("2", "1/9"),
        ("3/2", "8/35"),
    ]
    for growth, delta in budgets:
        g, dlt = Fraction(growth), Fraction(delta)
        for z, edition in product(_law_scores(g, dlt), EDITIONS.values()):
            if edition.test_law not in {"printed", "repaired"}:
                continue
            arguments = {"score": z, "growth": g, "delta": dlt, "edition": edition}
            name = f"law-g{growth}-delta{delta}-z{z}-{edition.name.lower()}".replace("/", "_")
            yield Aim(name, "ptr_pass_probability_at_growth", arguments, LAW_BUGS)


@family
def _laws_at_rational_epsilon() -> Iterator[Aim]:
    for epsilon, delta in (
        ("1", "1e-6"),
        ("1/3", "1/6000000"),
        ("1/2", "1e-3"),
        ("1/10", "1e-9"),
        ("1", "1/2"),
        ("1", "1e-30"),
    ):
        eps, dlt = Fraction(epsilon), Fraction(delta)
        growth = Fraction(math.exp(eps / 2)).limit_denominator(10**6)
        scores = _law_scores(growth, dlt)
        for z, edition in product(scores[::2] if epsilon == "1/10" else scores, EDITIONS.values()):
            if edition.test_law not in {"printed", "repaired"} or (edition.test_law == "printed" and dlt > eps / 10):
                continue
            arguments = {"score": z, "epsilon": eps, "delta": dlt, "edition": edition}
            name = f"law-eps{epsilon}-delta{delta}-z{z}-{edition.name.lower()}".replace("/", "_")
            yield Aim(name, "ptr_pass_probability", arguments, LAW_BUGS)


# Parameters -----------------------------------------------------------------------------------------------------------

PARAMETER_BUGS = (
    "parameters_of_the_other_edition",
    "gate_by_n_alone",
    "gate_is_strict",
    "no_stability_gate",
    "k_without_the_last_four",
    "k_rounded_down",
    "k_of_the_whole_budget",
    "noise_is_rounded_to_nearest",
    "noise_of_the_whole_budget",
    "noise_without_the_square_root",
    "reference_of_the_other_constant",
    "reference_is_not_capped",
    "samples_rounded_up",
    "samples_of_the_whole_budget",
)


@family
def _parameters_at_the_gates() -> Iterator[Aim]:
    budgets = [
        ("1", "1e-6", "10"),
        ("1/2", "1e-6", "21/20"),
        ("1", "1e-9", "50"),
        ("1", "1e-3", "3"),
        ("0.1", "1e-5", "7"),
    ]
    budgets += [("1/100", "1/2", "2")]  # the step of the covariance, and not k, decides how many rows it takes
    for (epsilon, delta, lambda_0), edition, d in product(budgets, ("PRINTED", "REPAIRED"), (1,)):
        if edition == "PRINTED" and delta == "1/2":
            continue
        public: dict[str, Any] = {
            "epsilon": Fraction(epsilon),
            "delta": Fraction(delta),
            "lambda_0": Fraction(lambda_0),
            "edition": EDITIONS[edition],
        }
        for group, make in (("mean_parameters", mean_parameters), ("covariance_parameters", covariance_parameters)):
            least = make(0, d, **public).least_n
            for n in (0, 2, 101, least // 2, least - 1, least, least + 1, 2 * least + 1):
                task, budget = group.partition("_")[0], f"eps{epsilon}-delta{delta}-lambda{lambda_0}"
                name = f"{task}-plan-{budget}-n{n}-{edition.lower()}"
                arguments = {"n": n, "d": d, **public}
                yield Aim(name.replace("/", "_"), group, arguments, PARAMETER_BUGS, ("SizeGate",))


# Releases -------------------------------------------------------------------------------------------------------------

RELEASE_BUGS = (
    "noise_factor_is_transposed",
    "noise_variance_as_deviation",
    "noise_ignores_the_covariance",
    "noise_has_the_square_of_the_covariance",
    "release_without_the_mean",
    "noise_of_the_symmetric_root",
    "noise_by_cholesky_in_float64",
    "noise_is_subtracted",
)


@family
def _gaussian_releases() -> Iterator[Aim]:
    for name, matrix in (
        ("diagonal", [[4.0, 0.0], [0.0, 9.0]]),
        ("correlated", [[2.0, 1.0], [1.0, 3.0]]),
        ("negative", [[5.0, -2.0], [-2.0, 1.0]]),
        ("singular", [[1.0, 1.0], [1.0, 1.0]]),
        ("zero", [[0.0, 0.0], [0.0, 0.0]]),
        ("huge", [[1e300, 1e299], [1e299, 1e300]]),
        ("tiny", [[1e-300, 1e-301], [1e-301, 1e-300]]),
        ("unlike", [[1e150, 0.5], [0.5, 1e-100]]),
        ("space", [[4.0, 2.0, 1.0], [2.0, 5.0, 3.0], [1.0, 3.0, 6.0]]),
        ("almost", [[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]),
    ):
        d = len(matrix)
        for slug, scale in (("quarter", Fraction(1, 4)), ("three", Fraction(3)), ("third", Fraction(1, 3))):
            for what, normals in (
                ("first", [1.0] + [0.0] * (d - 1)),
                ("mixed", [0.5 * (-1) ** i + i for i in range(d)]),
            ):
                arguments = {
                    "mean": tuple(Fraction(10 + i, 7) for i in range(d)),
                    "covariance": array(matrix),
                    "noise_scale": scale,
                    "normals": np.array(normals),
                }
                yield Aim(f"release-{name}-{slug}-{what}", "gaussian_release", arguments, RELEASE_BUGS)


# Definitions ----------------------------------------------------------------------------------------------------------

GOOD_BUGS = (
    "good_is_strict",
    "good_divides_by_the_size",
    "good_looks_at_all_rows",
    "good_when_singular",
    "good_not_squared",
    "good_in_float64",
)


@family
def _good_and_not_quite_good() -> Iterator[Aim]:
    for name, rows, flags in row_sets():
        if not name.startswith(("d1", "d2", "chain-2", "thirds", "tenths", "tall")):
            continue
        for what, subset in (("all", range(len(rows))), ("most", range(len(rows) - 1))):
            found = norms(rows, subset)
            for slug, lam in beside(max(found)):
                arguments = {"y": array(rows), "subset": tuple(subset), "lam": lam}
                yield Aim(f"good-{name}-{what}-{slug}", "is_good_subset", arguments, GOOD_BUGS, flags)
    for name, rows in singular_sets():
        arguments = {"y": array(rows), "subset": tuple(range(len(rows))), "lam": Fraction(100)}
        yield Aim(f"good-{name}", "is_good_subset", arguments, GOOD_BUGS)


@family
def _good_weightings() -> Iterator[Aim]:
    for m, halves in product((6, 9, 14), (1, 2, 3)):
        rows = [*bulk(1, m - halves), *[(4.0,)] * halves]
        weights = (Fraction(1, m),) * (m - halves) + (Fraction(1, 2 * m),) * halves
        moment = sum((w * Fraction(r[0]) ** 2 for w, r in zip(weights, rows, strict=True)), Fraction(0))
        for slug, lam in beside(16 / moment):
            arguments = {"y": array(rows), "weights": weights, "lam": lam}
            yield Aim(f"weights-m{m}-{halves}-{slug}", "is_good_weighting", arguments, GOOD_BUGS)
        zero = (Fraction(1, m),) * (m - halves) + (Fraction(0),) * halves
        arguments = {"y": array(rows), "weights": zero, "lam": Fraction(m, m - halves)}
        yield Aim(f"weights-m{m}-{halves}-support", "is_good_weighting", arguments, GOOD_BUGS)
        arguments = {"y": array(rows), "weights": (Fraction(11, 10), *zero[1:]), "lam": Fraction(10**6)}
        yield Aim(f"weights-m{m}-{halves}-above-one", "is_good_weighting", arguments, ("weights_are_not_checked",))


@family
def _weighted_cores() -> Iterator[Aim]:
    bugs = (
        "core_degree_is_strict",
        "core_radius_is_single",
        "core_looks_at_all_rows",
        "core_is_strict",
        "weights_are_not_checked",
    )
    x = [(0.0,)] * 5 + [(2.0,)] * 3 + [(9.0,)]
    for tau, (what, weights) in product(
        (3, 5, 6, 8),
        (
            ("uniform", (Fraction(1, 9),) * 9),
            ("bulk", (Fraction(1, 8),) * 8 + (Fraction(0),)),
            ("first", (Fraction(1, 5),) * 5 + (Fraction(0),) * 4),
            ("not-a-law", (Fraction(1, 5),) * 8 + (Fraction(0),)),
        ),
    ):
        for slug, lam in beside(Fraction(2)):
            arguments = {
                "x": array(x),
                "weights": weights,
                "tau": tau,
                "lam": lam,
                "covariance": array([[1.0]]),
                "reference": tuple(range(8)),
            }
            yield Aim(f"weighted-core-tau{tau}-{what}-{slug}", "is_weighted_core", arguments, bugs)


@family
def _degree_representatives() -> Iterator[Aim]:
    bugs = ("representative_of_the_other_edition", "representative_without_growth", "representative_is_loose")
    for n, share, k, edition in product((24, 36), (4, 6, 8), (1, 2), ("PRINTED", "REPAIRED")):
        for gap in (2.0, 2.5, 3.0):
            x = [(0.0,)] * (n - share) + [(gap,)] * share
            for inside in (0, 1, 2, 3):
                reference = (*range(6 - inside), *range(n - inside, n))
                arguments = {
                    "x": array(x),
                    "covariance": array([[1.0]]),
                    "lambda_0": Fraction(2),
                    "k": k,
                    "reference": reference,
                    "edition": EDITIONS[edition],
                }
                name = f"representative-n{n}-share{share}-k{k}-gap{gap:g}-in{inside}-{edition.lower()}"
                yield Aim(name, "is_degree_representative", arguments, bugs)


@family
def _well_concentrated() -> Iterator[Aim]:
    bugs = (
        "concentrated_by_eq_24",
        "concentrated_is_strict",
        "concentrated_without_pairing",
        "concentrated_radius_is_single",
    )
    for n, odd, gap in product((8, 12), (0, 1), (1.0, 2.0, 3.0)):
        x = [(0.0,)] * (n // 2) + [(gap,)] * (n // 2 - 1) + [(0.0,)] + [(gap,)] * odd
        m = len(x) // 2
        sigma = sum((Fraction(a[0] - b[0]) ** 2 for a, b in zip(x[:m], x[m : 2 * m], strict=True)), Fraction(0)) / (
            2 * m
        )
        diameter = Fraction(gap) ** 2 / sigma
        for slug, value in (
            *beside(diameter / 2),
            ("root", diameter * Fraction(11, 20) * Fraction(13, 20)),
            ("full", diameter),
        ):
            arguments = {"x": array(x), "lambda_0": value}
            yield Aim(f"concentrated-n{n + odd}-gap{gap:g}-{slug}", "is_well_concentrated", arguments, bugs)


@family
def _adjacent_or_not() -> Iterator[Aim]:
    bugs = (
        "adjacent_as_sets",
        "adjacent_up_to_two",
        "adjacent_by_entries",
        "adjacent_up_to_rounding",
        "adjacent_must_differ",
    )
    x = [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0), (1.0, 2.0)]
    cases = [
        ("equal", x),
        ("one-entry", [(1.0, 2.5), *x[1:]]),
        ("one-row", [(8.0, 9.0), *x[1:]]),
        ("two-rows", [(8.0, 9.0), x[1], (0.0, 0.0), x[3]]),
        ("two-entries", [(1.0, 2.5), x[1], (5.0, 6.5), x[3]]),
        ("reordered", [x[1], x[0], *x[2:]]),
        ("ulps", [(float(np.nextafter(a, 9)), b) for a, b in x]),
        ("two-ulps", [(float(np.nextafter(1.0, 9)), 2.0), x[1], (5.0, float(np.nextafter(6.0, 9))), x[3]]),
        ("signed-zero", [(-0.0, 2.0), *x[1:]]),
        ("last", [*x[:3], (1e300, -1e300)]),
    ]
    for name, other in cases:
        yield Aim(f"adjacent-{name}", "is_adjacent", {"x": array(x), "x_prime": array(other)}, bugs)
    zeros = [(0.0, 0.0)] * 3
    arguments = {"x": array(zeros), "x_prime": array([(-0.0, 0.0)] * 3)}
    yield Aim("adjacent-zeros", "is_adjacent", arguments, ("adjacent_by_bits",))
    for n, changed in product((1, 2, 5, 9), (0, 1, 2)):
        if changed <= n:
            line = [(float(i),) for i in range(n)]
            half_off = [(v[0] + 0.5,) if i < changed else v for i, v in enumerate(line)]
            yield Aim(
                f"adjacent-n{n}-changed{changed}", "is_adjacent", {"x": array(line), "x_prime": array(half_off)}, bugs
            )
