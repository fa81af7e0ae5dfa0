"""An adapter of refimpl, as a program: exact numbers as "p/q", results kept by the answers that are sent back."""

from __future__ import annotations

import json
import sys
import warnings
from fractions import Fraction
from typing import Any

import numpy as np

import refimpl
from refimpl.results import CovarianceCoins, GaussianCoins, MeanCoins, TestCoin

warnings.simplefilter("ignore", refimpl.PrintedEditionWarning)  # PRINTED is asked for to be refuted


def floats(rows: Any) -> Any:
    return np.array([[float.fromhex(v) for v in row] for row in rows]).reshape(len(rows), -1)


def text(values: Any) -> Any:
    return [text(v) for v in values] if isinstance(values, list | tuple) else str(values)


def stage(result: Any, **more: Any) -> dict[str, Any]:
    sets = result.cores if hasattr(result, "cores") else result.good_subsets
    return {"score": result.score, "weights": text(result.weights), "sets": [sorted(s) for s in sets], **more}


SEEN: dict[
    str, Any
] = {}  # results by what was answered: the auditor sends the answer back where the mean stage wants it


def covariance_answer(result: Any) -> dict[str, Any]:
    answer = stage(result, covariance=text(result.covariance.tolist()))
    SEEN[json.dumps(answer, sort_keys=True)] = result
    return answer


def given_covariance(covariance: Any) -> Any:
    if "matrix" in covariance:
        return floats(covariance["matrix"])
    return SEEN[json.dumps(covariance["result"], sort_keys=True)]


def largest_good_subset(y: Any, lam: str) -> list[int]:
    return sorted(refimpl.largest_good_subset(floats(y), lam))


def stable_second_moment(y: Any, lambda_0: str, k: int) -> dict[str, Any]:
    return covariance_answer(refimpl.stable_second_moment(floats(y), lambda_0, k))


def stable_covariance(x: Any, lambda_0: str, k: int) -> dict[str, Any]:
    return covariance_answer(refimpl.stable_covariance(floats(x), lambda_0, k))


def largest_core(x: Any, covariance: Any, lam: str, tau: int, reference: list[int]) -> list[int]:
    return sorted(refimpl.largest_core(floats(x), given_covariance(covariance), lam, tau, reference))


def stable_mean(x: Any, covariance: Any, lambda_0: str, k: int, reference: list[int]) -> dict[str, Any]:
    result = refimpl.stable_mean(floats(x), given_covariance(covariance), lambda_0, k, reference)
    return stage(result, mean=text(result.mean))


def stable_moments(x: Any, lambda_0: str, k: int, window: int) -> dict[str, Any]:
    result = refimpl.stable_moments(floats(x), lambda_0, k, window)
    mean, covariance = result.mean, result.covariance
    table = None if covariance is None else [text(row) for row in covariance.tolist()]
    return stage(result, mean=None if mean is None else text(mean), covariance=table)


def ptr_pass_probability(score: int, epsilon: str, delta: str, edition: str) -> str:
    law = refimpl.ptr_pass_probability(score, epsilon, delta, edition=getattr(refimpl, edition))
    return float(law).hex()


def ptr_pass_probability_at_growth(score: int, growth: str, delta: str, edition: str) -> str:
    law = refimpl.ptr_pass_probability_at_growth(score, growth, delta, edition=getattr(refimpl, edition))
    return str(law)


def release(mean: Any) -> dict[str, Any] | None:
    return None if mean is None else {"mean": [float(v).hex() for v in mean]}


def table(matrix: Any) -> list[list[str]]:
    return [[float(v).hex() for v in row] for row in matrix.tolist()]


def budget(given: dict[str, Any]) -> dict[str, Any]:
    exact = {name: Fraction(given[name]) for name in ("epsilon", "delta", "lambda_0")}
    return {**exact, "edition": getattr(refimpl, given["edition"])}


def coin_of(coins: dict[str, Any]) -> TestCoin:
    return TestCoin(int(coins["test"], 16), bytes.fromhex(coins["seed"]))


def mean_coins(coins: dict[str, Any]) -> MeanCoins:
    normals = np.array([float.fromhex(v) for v in coins["normals"]])
    return MeanCoins(coin_of(coins), tuple(coins["reference"]), normals)


def covariance_coins(coins: dict[str, Any], samples: int) -> CovarianceCoins:
    factor = floats(coins["factor"])
    normals = np.zeros((samples, len(factor)))
    normals[: len(factor)] = factor.T
    return CovarianceCoins(coin_of(coins), normals)


def private_mean_given(x: Any, parameters: dict[str, Any], coins: dict[str, Any]) -> dict[str, Any] | None:
    made = refimpl.mean_parameters(parameters["n"], parameters["d"], **budget(parameters))
    return release(refimpl.private_mean_given(floats(x), made, mean_coins(coins)).mean)


def private_covariance_given(x: Any, parameters: dict[str, Any], coins: dict[str, Any]) -> dict[str, Any] | None:
    made = refimpl.covariance_parameters(parameters["n"], parameters["d"], **budget(parameters))
    found = refimpl.private_covariance_given(floats(x), made, covariance_coins(coins, made.samples)).covariance
    return None if found is None else {"covariance": table(found)}


def private_gaussian_given(x: Any, parameters: dict[str, Any], coins: dict[str, Any]) -> dict[str, Any] | None:
    half = parameters["mean"]  # which has half of epsilon and of delta
    whole = {name: 2 * Fraction(half[name]) for name in ("epsilon", "delta")} | {"lambda_0": half["lambda_0"]}
    made = refimpl.gaussian_parameters(half["n"], half["d"], **whole, edition=refimpl.REPAIRED)
    given = GaussianCoins(mean_coins(coins["mean"]), covariance_coins(coins["covariance"], made.covariance.samples))
    found = refimpl.private_gaussian_given(floats(x), made, given)
    if found.mean is None or found.covariance is None:
        return None
    return {**(release(found.mean) or {}), "covariance": table(found.covariance)}


def mean_parameters(n: int, d: int, **given: Any) -> dict[str, Any]:
    p = refimpl.mean_parameters(n, d, **budget(given))
    whole = {"k": p.k, "reference_size": p.reference_size, "least_n": p.least_n}
    return {**whole, "noise_scale": str(p.noise_scale), "passes_gates": refimpl.passes_gates(p)}


def covariance_parameters(n: int, d: int, **given: Any) -> dict[str, Any]:
    p = refimpl.covariance_parameters(n, d, **budget(given))
    return {"k": p.k, "samples": p.samples, "least_n": p.least_n, "passes_gates": refimpl.passes_gates(p)}


def gaussian_release(mean: Any, covariance: Any, noise_scale: str, normals: Any) -> list[str]:
    exact, z = [Fraction(v) for v in mean], [float.fromhex(v) for v in normals]
    found = refimpl.gaussian_release(exact, given_covariance(covariance), Fraction(noise_scale), z)
    return [float(v).hex() for v in found]


def wishart_release(covariance: Any, samples: int, normals: Any) -> list[list[str]]:
    return table(refimpl.wishart_release(given_covariance(covariance), samples, floats(normals)))


def is_good_subset(y: Any, subset: list[int], lam: str) -> bool:
    return refimpl.is_good_subset(floats(y), subset, Fraction(lam))


def is_good_weighting(y: Any, weights: list[str], lam: str) -> bool:
    return refimpl.is_good_weighting(floats(y), [Fraction(w) for w in weights], Fraction(lam))


def is_weighted_core(x: Any, weights: list[str], tau: int, lam: str, covariance: Any, reference: list[int]) -> bool:
    exact = [Fraction(w) for w in weights]
    return refimpl.is_weighted_core(floats(x), exact, tau, Fraction(lam), given_covariance(covariance), reference)


def is_degree_representative(
    x: Any, covariance: Any, lambda_0: str, k: int, reference: list[int], edition: str
) -> bool:
    rules, matrix = getattr(refimpl, edition), given_covariance(covariance)
    return refimpl.is_degree_representative(floats(x), matrix, Fraction(lambda_0), k, reference, edition=rules)


def is_well_concentrated(x: Any, lambda_0: str) -> bool:
    return refimpl.is_well_concentrated(floats(x), Fraction(lambda_0))


def is_adjacent(x: Any, x_prime: Any) -> bool:
    return refimpl.is_adjacent(floats(x), floats(x_prime))


class Replay(np.random.Generator):
    """A generator whose one read of 256 bits gives the seed that the auditor sent."""

    def __init__(self, seed: bytes) -> None:
        super().__init__(np.random.PCG64(0))
        self.seed = seed

    def bytes(self, length: int) -> bytes:
        return self.seed[:length]


def private_mean(x: Any, epsilon: str, delta: str, lambda_0: str, edition: str, seed: str | None) -> Any:
    rng = None if seed is None else Replay(bytes.fromhex(seed))
    public = budget({"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0, "edition": edition})
    return release(refimpl.private_mean(floats(x), **public, rng=rng).mean)


FUNCTIONS = {
    f.__name__: f
    for f in (
        largest_good_subset,
        stable_second_moment,
        stable_covariance,
        largest_core,
        stable_mean,
        stable_moments,
        ptr_pass_probability,
        ptr_pass_probability_at_growth,
        private_mean_given,
        private_covariance_given,
        private_gaussian_given,
        mean_parameters,
        covariance_parameters,
        gaussian_release,
        wishart_release,
        is_good_subset,
        is_good_weighting,
        is_weighted_core,
        is_degree_representative,
        is_well_concentrated,
        is_adjacent,
        private_mean,
    )
}
HELLO = {
    "ok": True,
    "protocol": 2,
    "name": "refimpl",
    "version": "1",
    "functions": [*FUNCTIONS, "something_else"],
    "most_rows": 400,
}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "stop":
            break
        answer: dict[str, Any] = HELLO
        if request["op"] == "run":
            try:
                result = FUNCTIONS[request["function"]](**request["arguments"])
                answer = {"id": request["id"], "ok": True, "result": result}
            except Exception as error:
                answer = {"id": request["id"], "ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
