"""The file of vectors and pinned pairs: it obeys its schema, and the pairs show what they say they show."""

from __future__ import annotations

import copy
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any

import jsonschema
import numpy as np
import pytest

import fastimpl
import refimpl
from proofs_checks import vectors
from refimpl.linalg import exact_matrix, inverse_or_none, mahalanobis_squared, to_fraction

PAIRS = {pair["id"]: pair for pair in vectors.load()["pairs"]}

# SCORE before and after the replacement, of the stage that the erratum speaks of.
SCORES = {
    "E3-mid": (30, 31),
    "E3-cov": (100, 101),
    "E7": (0, 0),
    "E8": (0, 3),
    "E8-x": (0, 3),
    "E9": (0, 3),
    "E9-x": (0, 3),
    "E10": (9, 9),
    "E11": (1, 1),
    "E11-x": (1, 1),
    "E12": (0, 0),
    "E14-lemma-42": (0, 3),
    "E14-lemma-9": (0, 3),
    "E16": (1, 1),
    "E18-uncapped": (1, 1),
    "E18-claim-31": (0, 4),
}


def both(pair: dict[str, Any]) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    x = vectors.rows(pair["rows"])
    x_prime = copy.copy(x)
    x_prime[pair["replaced"]["index"]] = [Fraction(value) for value in pair["replaced"]["row"]]
    return x, x_prime


@cache
def run(name: str, implementation: ModuleType) -> tuple[Any, Any]:
    """The stage of the pair on both data sets; the covariance stage where it is the whole pipeline."""
    pair = PAIRS[name]
    lambda_0, k = Fraction(pair["lambda_0"]), pair["k"]

    def data(rows: list[list[Fraction]]) -> Any:
        return rows if implementation is refimpl else np.array(rows, dtype=np.float64)

    stages: dict[str, Callable[[Any, Any], Any]] = {
        "covariance": lambda rows, _: implementation.stable_second_moment(data(rows), lambda_0, k),
        "pipeline": lambda rows, _: implementation.stable_covariance(data(rows), lambda_0, k),
        "mean": lambda rows, sigma: implementation.stable_mean(
            data(rows), data(sigma), lambda_0, k, vectors.indices(pair["reference"])
        ),
    }
    sigmas = [
        None if matrix is None else [[Fraction(value) for value in row] for row in matrix]
        for matrix in (pair["covariance"], pair["covariance_prime"])
    ]
    first, second = (stages[pair["stage"]](rows, sigma) for rows, sigma in zip(both(pair), sigmas, strict=True))
    return first, second


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(vectors.schema())


def test_the_file_obeys_its_schema() -> None:
    jsonschema.Draft202012Validator(vectors.schema()).validate(vectors.load())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("vectors", 0, "group"), "no_such_group"),
        (("vectors", 0, "flags"), ["NoSuchFlag"]),
        (("vectors", 0, "expected"), {"passes": 1}),
        (("pairs", 0, "lambda_0"), 0.5),
        (("pairs", 0, "rows"), [[1, ["nan"]]]),
        (("pairs", 0, "stage"), "mean"),
    ],
)
def test_the_schema_has_teeth(path: tuple[str, int, str], value: object) -> None:
    content = copy.deepcopy(vectors.load())
    kind, number, key = path
    content[kind][number][key] = value
    assert not jsonschema.Draft202012Validator(vectors.schema()).is_valid(content)


@pytest.mark.parametrize("kind", ["vectors", "pairs"])
def test_ids_are_unique_and_found(kind: str) -> None:
    entries = vectors.load()[kind]
    find = {"vectors": vectors.case, "pairs": vectors.pair}[kind]
    assert [find(entry["id"]) for entry in entries] == entries
    with pytest.raises(KeyError):
        find("no such id")


def test_every_flag_and_group_of_the_schema_is_used() -> None:
    definitions, listed = vectors.schema()["$defs"], vectors.load()["vectors"]
    assert {flag["const"] for flag in definitions["flag"]["oneOf"]} == {flag for v in listed for flag in v["flags"]}
    assert set(definitions["vector"]["properties"]["group"]["enum"]) == {v["group"] for v in listed}


def test_readers_write_out_what_is_encoded() -> None:
    assert vectors.rows([(2, ["1", "-1/2"]), (1, ["0", "3"])]) == [[1, Fraction(-1, 2)]] * 2 + [[0, 3]]
    assert vectors.indices([(0, 2), (5, 6)]) == [0, 1, 5]


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_adjacent_and_fit_float64(name: str) -> None:
    x, x_prime = both(PAIRS[name])
    assert refimpl.is_adjacent(x, x_prime)
    matrices = [PAIRS[name]["covariance"] or [], PAIRS[name]["covariance_prime"] or []]
    numbers = [value for row in x + x_prime for value in row] + [
        Fraction(v) for m in matrices for row in m for v in row
    ]
    assert all(float(value) == value for value in numbers)


@pytest.mark.parametrize("implementation", [refimpl, fastimpl], ids=lambda module: module.__name__)
@pytest.mark.parametrize("name", SCORES)
def test_pairs_have_the_scores_that_they_say(name: str, implementation: ModuleType) -> None:
    first, second = run(name, implementation)
    assert (first.score, second.score) == SCORES[name]


@pytest.mark.parametrize(
    "implementation", [pytest.param(refimpl, marks=pytest.mark.nightly), fastimpl], ids=lambda module: module.__name__
)
def test_the_full_size_pair_has_the_scores_that_it_says(implementation: ModuleType) -> None:
    first, second = run("E3-full", implementation)
    assert (first.score, second.score) == (95, 96)


def test_every_pair_is_looked_at() -> None:
    assert {name for name in PAIRS if name.startswith("E")} == {*SCORES, "E3-full"}
    assert [name for name, pair in PAIRS.items() if not name.startswith("E") and not pair.get("checks")] == []


def test_e7_moves_by_more_than_printed() -> None:
    first, second = (to_fraction(result.covariance[0, 0]) for result in run("E7", refimpl))
    step = Fraction(2, 4000)  # lambda_0/n
    assert Fraction(17, 20) * step < abs(second / first - 1) <= refimpl.parameters.covariance_step(Fraction(2), 4000)


def test_e10_is_less_good_than_printed() -> None:
    pair = PAIRS["E10"]
    (result, _), (y, _) = run("E10", refimpl), both(pair)
    inverse = inverse_or_none(result.covariance)
    assert inverse is not None
    goodness = max(map(to_fraction, mahalanobis_squared(exact_matrix("y", y), inverse)))
    assert Fraction(25, 18) * 2 < goodness <= refimpl.REPAIRED.goodness_factor(10, Fraction(2), 200)


def test_e11_has_a_low_score_and_no_covariance() -> None:
    result, _ = run("E11", refimpl)
    assert result.score < PAIRS["E11"]["k"]
    assert inverse_or_none(result.covariance) is None


def test_e12_is_representative_as_printed_but_no_core() -> None:
    x, _ = both(PAIRS["E12"])
    result, _ = run("E12", refimpl)
    reference, last = vectors.indices(PAIRS["E12"]["reference"]), refimpl.Lambda_ell(Fraction(1), 40, 2)
    assert refimpl.is_degree_representative(x, [[1]], 1, 1, reference, edition=refimpl.PRINTED)
    assert not refimpl.is_degree_representative(x, [[1]], 1, 1, reference, edition=refimpl.REPAIRED)
    assert result.score < 1
    cores = [refimpl.is_weighted_core(x, result.weights, tau, last, [[1]], range(40)) for tau in (8, 9, 21)]
    assert cores == [True, False, False]


def test_e14_covariances_are_as_close_as_the_variants_ask() -> None:
    for name, gamma in (("E14-lemma-42", Fraction(1, 5)), ("E14-lemma-9", Fraction(40, 7) / 1200)):
        ((scale, _), _), ((scale_prime, _), _) = PAIRS[name]["covariance"], PAIRS[name]["covariance_prime"]
        ratio = Fraction(scale_prime) / Fraction(scale)
        assert 1 - gamma <= ratio <= 1 / (1 - gamma)
        assert ratio < 1 - refimpl.parameters.ordered_stability_gamma(Fraction(1), len(both(PAIRS[name])[0]))


def test_e16_is_well_concentrated_by_eq_24_only() -> None:
    x, _ = both(PAIRS["E16"])
    distance_squared = Fraction(1) / Fraction(1, 2)  # of 0 and 1, in the covariance 1/(2m) sum (x_i - x_{i+m})^2 = 1/2
    assert not refimpl.is_well_concentrated(x, "3/4")
    # In Eq. (24) it is distance_squared/sqrt 2, so its square is to be compared with (2 lambda_0)^2.
    assert distance_squared**2 / 2 <= (2 * Fraction(3, 4)) ** 2


def test_e18_moves_without_the_cap() -> None:
    def uncapped(result: Any) -> int:
        return min(20 - len(result.good_subsets[ell]) + ell for ell in (0, 1))

    first, second = run("E18-uncapped", refimpl)
    assert (uncapped(first), uncapped(second)) == (1, 7)


def test_e18_is_one_replacement_from_good() -> None:
    y, _ = both(PAIRS["E18-claim-31"])
    assert refimpl.is_good_subset(y, range(40), 2)
