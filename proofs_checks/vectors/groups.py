"""The groups of test vectors: which function of a target each one calls, and what of the answer is compared.

The same code runs refimpl to write the answers and a target to check it. An answer is a dict of named fields in the order of
the algorithm's stages, so that the first field that differs is the first stage at which a target departs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from proofs_checks.target import levels_of
from refimpl.parameters import (
    PrintedEditionWarning,
    covariance_parameters,
    gaussian_parameters,
    mean_parameters,
)
from refimpl.results import CovarianceCoins, GaussianCoins, MeanCoins, TestCoin

__all__ = ["GROUPS", "Group"]

Answer = dict[str, Any]

COIN_SEED = bytes(32)
"""Of the digits of the test's number beyond the 256 that a vector states."""


@dataclass(frozen=True)
class Group:
    """One group of vectors.

    Attributes
    ----------
    name
        Of the group and of its file.
    says
        What is computed, in a line.
    needs
        The functions that a target must have; a target without them is "not provided".
    run
        From an implementation and the decoded input to the answer.
    takes
        The arguments of its inputs.
    """

    name: str
    says: str
    needs: tuple[str, ...]
    run: Callable[[Any, Answer], Answer]
    takes: tuple[str, ...]


GROUPS: dict[str, Group] = {}
"""Every group by name, in the order in which they are run."""


def _group(says: str, needs: tuple[str, ...], takes: tuple[str, ...]) -> Callable[[Any], Any]:
    def register(run: Callable[[Any, Answer], Answer]) -> Callable[[Any, Answer], Answer]:
        name = run.__name__.removeprefix("_run_")
        GROUPS[name] = Group(name, says, needs or (name,), run, takes)
        return run

    return register


def _levels(result: Any, k: int) -> Answer:
    """The sets of every level and the score: integers, for which nobody is granted any rounding."""
    return {"levels": levels_of(result, 2 * k + 1), "score": int(result.score)}


def _numbers(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _covariance_stage(result: Any, k: int) -> Answer:
    """A score of k is a FAIL whatever the matrix, and fast code may then not have it."""
    answer = {**_levels(result, k), "weights": _numbers(result.weights)}
    if answer["score"] < k:
        answer["covariance"] = [list(row) for row in _numbers(result.covariance)]
    return answer


def _mean_stage(result: Any, k: int) -> Answer:
    answer = {**_levels(result, k), "weights": _numbers(result.weights)}
    if answer["score"] < k:
        answer["mean"] = _numbers(result.mean)
    return answer


def _rows(found: Iterable[int]) -> Answer:
    return {"rows": frozenset(int(i) for i in found)}


@_group("the largest lam-good subset of the rows y", (), ("y", "lam"))
def _run_largest_good_subset(target: Any, given: Answer) -> Answer:
    return _rows(target.largest_good_subset(given["y"], given["lam"]))


@_group(
    "good subsets of every level, score, weights and weighted second moment of rows given directly",
    (),
    ("y", "lambda_0", "k"),
)
def _run_stable_second_moment(target: Any, given: Answer) -> Answer:
    return _covariance_stage(target.stable_second_moment(given["y"], given["lambda_0"], given["k"]), given["k"])


@_group(
    "the same of the paired rows (x_i - x_{i+m})/sqrt 2, m = floor(n/2)",
    (),
    ("x", "lambda_0", "k"),
)
def _run_stable_covariance(target: Any, given: Answer) -> Answer:
    return _covariance_stage(target.stable_covariance(given["x"], given["lambda_0"], given["k"]), given["k"])


@_group(
    "the rows with at least tau reference rows within squared distance 2 lam",
    (),
    ("x", "covariance", "lam", "tau", "reference"),
)
def _run_largest_core(target: Any, given: Answer) -> Answer:
    arguments = (given["x"], given["covariance"], given["lam"], given["tau"], given["reference"])
    return _rows(target.largest_core(*arguments))


@_group(
    "cores of every level, score, weights and weighted mean, in a matrix that is given",
    (),
    ("x", "covariance", "lambda_0", "k", "reference"),
)
def _run_stable_mean(target: Any, given: Answer) -> Answer:
    k = given["k"]
    return _mean_stage(target.stable_mean(given["x"], given["covariance"], given["lambda_0"], k, given["reference"]), k)


@_group(
    "both stages, the mean in the covariance stage's own result: its exact matrix, not a rounded one",
    ("stable_covariance", "stable_mean"),
    ("x", "lambda_0", "k", "reference"),
)
def _run_pipeline(target: Any, given: Answer) -> Answer:
    k = given["k"]
    covariance = target.stable_covariance(given["x"], given["lambda_0"], k)
    mean = target.stable_mean(given["x"], covariance, given["lambda_0"], k, given["reference"])
    first = {name: value for name, value in _covariance_stage(covariance, k).items() if name in {"score", "covariance"}}
    return {"score_1": first.pop("score"), **first, **_mean_stage(mean, k)}


@_group(
    "Pr[PASS] of the test over growth = e^(epsilon/2), exact",
    (),
    ("score", "growth", "delta", "edition"),
)
def _run_ptr_pass_probability_at_growth(target: Any, given: Answer) -> Answer:
    law = target.ptr_pass_probability_at_growth
    return {"probability": law(given["score"], given["growth"], given["delta"], edition=given["edition"])}


@_group(
    "Pr[PASS] of the test with its own budget, between two exact numbers",
    (),
    ("score", "epsilon", "delta", "edition"),
)
def _run_ptr_pass_probability(target: Any, given: Answer) -> Answer:
    law = target.ptr_pass_probability
    return {"probability": law(given["score"], given["epsilon"], given["delta"], edition=given["edition"])}


def _budget(given: Answer) -> Answer:
    return {name: given[name] for name in ("epsilon", "delta", "lambda_0", "edition")}


_PUBLIC = ("n", "d", "epsilon", "delta", "lambda_0", "edition")


@_group(
    "k, abs(R), c, least n and the gates of Algorithm 1, from public numbers",
    ("mean_parameters", "passes_gates"),
    _PUBLIC,
)
def _run_mean_parameters(target: Any, given: Answer) -> Answer:
    p = target.mean_parameters(given["n"], given["d"], **_budget(given))
    whole = {name: int(getattr(p, name)) for name in ("k", "reference_size", "least_n")}
    return {**whole, "noise_scale": Fraction(p.noise_scale), "passes_gates": bool(target.passes_gates(p))}


@_group(
    "k, N, least n and the gates of Algorithm 5.1, from public numbers",
    ("covariance_parameters", "passes_gates"),
    _PUBLIC,
)
def _run_covariance_parameters(target: Any, given: Answer) -> Answer:
    p = target.covariance_parameters(given["n"], given["d"], **_budget(given))
    whole = {name: int(getattr(p, name)) for name in ("k", "samples", "least_n")}
    return {**whole, "passes_gates": bool(target.passes_gates(p))}


@_group(
    "mean + c L z, L the lower Cholesky factor of the covariance",
    (),
    ("mean", "covariance", "noise_scale", "normals"),
)
def _run_gaussian_release(target: Any, given: Answer) -> Answer:
    arguments = (given["mean"], given["covariance"], given["noise_scale"], given["normals"])
    return {"release": _numbers(target.gaussian_release(*arguments))}


def _release(function: Callable[..., Any], *arguments: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrintedEditionWarning)  # PRINTED's vectors are asked for on purpose
        return function(*arguments)


@_group(
    "Algorithm 1 with its coins: FAIL, or the release",
    ("private_mean_given",),
    ("x", *_PUBLIC[2:], "test", "reference", "normals"),
)
def _run_private_mean_given(target: Any, given: Answer) -> Answer:
    parameters = mean_parameters(*given["x"].shape, **_budget(given))
    coins = MeanCoins(TestCoin(given["test"], COIN_SEED), given["reference"], given["normals"])
    mean = _release(target.private_mean_given, given["x"], parameters, coins).mean
    return {"released": False} if mean is None else {"released": True, "release": _numbers(mean)}


def _covariance_coins(target: Any, parameters: Any, test: int, factor: Any) -> CovarianceCoins:
    """Coins whose draws have the sum of squares A A^T, A the factor, in the form that a target takes.

    That is A itself, or N rows of d normals: those of A^T, and zeros. A target tells by the coins that it draws; without a
    function for that it is given A.
    """
    normals = factor
    draw = getattr(target, "draw_covariance_coins", None)
    if callable(draw) and np.shape(draw(parameters, np.random.default_rng(0)).normals) != factor.shape:
        normals = np.zeros((parameters.samples, parameters.d))
        normals[: parameters.d] = factor.T
    return CovarianceCoins(TestCoin(test, COIN_SEED), normals)


def _matrix(values: Any) -> list[list[Any]]:
    return [list(row) for row in _numbers(values)]


@_group(
    "Algorithm 5.1 with its coins, A A^T being the sum of squares of its draws, A the factor: FAIL, or the release",
    ("private_covariance_given",),
    ("x", *_PUBLIC[2:], "test", "factor"),
)
def _run_private_covariance_given(target: Any, given: Answer) -> Answer:
    parameters = covariance_parameters(*given["x"].shape, **_budget(given))
    coins = _covariance_coins(target, parameters, given["test"], given["factor"])
    covariance = _release(target.private_covariance_given, given["x"], parameters, coins).covariance
    if covariance is None:
        return {"released": False}
    return {"released": True, "released_covariance": _matrix(covariance)}


@_group(
    "Algorithm 5.2 with its coins, those of Algorithms 1 and 5.1: FAIL, or both releases",
    ("private_gaussian_given",),
    ("x", *_PUBLIC[2:], "test", "test_covariance", "reference", "normals", "factor"),
)
def _run_private_gaussian_given(target: Any, given: Answer) -> Answer:
    parameters = gaussian_parameters(*given["x"].shape, **_budget(given))
    coins = GaussianCoins(
        MeanCoins(TestCoin(given["test"], COIN_SEED), given["reference"], given["normals"]),
        _covariance_coins(target, parameters.covariance, given["test_covariance"], given["factor"]),
    )
    found = _release(target.private_gaussian_given, given["x"], parameters, coins)
    if found.mean is None and found.covariance is None:
        return {"released": False}
    if found.mean is None or found.covariance is None:
        return {"released": "one half of it alone"}
    return {"released": True, "release": _numbers(found.mean), "released_covariance": _matrix(found.covariance)}


@_group("Definitions 5 and 23: whether a subset is lam-good", (), ("y", "subset", "lam"))
def _run_is_good_subset(target: Any, given: Answer) -> Answer:
    return {"holds": bool(target.is_good_subset(given["y"], given["subset"], given["lam"]))}


@_group("Definition 23: whether weights are lam-good", (), ("y", "weights", "lam"))
def _run_is_good_weighting(target: Any, given: Answer) -> Answer:
    return {"holds": bool(target.is_good_weighting(given["y"], given["weights"], given["lam"]))}


@_group(
    "Definition 35: whether weights are a core of degree tau",
    (),
    ("x", "weights", "tau", "lam", "covariance", "reference"),
)
def _run_is_weighted_core(target: Any, given: Answer) -> Answer:
    names = ("x", "weights", "tau", "lam", "covariance", "reference")
    return {"holds": bool(target.is_weighted_core(*(given[name] for name in names)))}


@_group(
    "Definition 33: whether R represents the degrees",
    (),
    ("x", "covariance", "lambda_0", "k", "reference", "edition"),
)
def _run_is_degree_representative(target: Any, given: Answer) -> Answer:
    arguments = (given["x"], given["covariance"], given["lambda_0"], given["k"], given["reference"])
    return {"holds": bool(target.is_degree_representative(*arguments, edition=given["edition"]))}


@_group("Definition 17: whether the rows are well concentrated", (), ("x", "lambda_0"))
def _run_is_well_concentrated(target: Any, given: Answer) -> Answer:
    return {"holds": bool(target.is_well_concentrated(given["x"], given["lambda_0"]))}


@_group("Definition 2: whether two data sets differ in one row at most", (), ("x", "x_prime"))
def _run_is_adjacent(target: Any, given: Answer) -> Answer:
    return {"holds": bool(target.is_adjacent(given["x"], given["x_prime"]))}
