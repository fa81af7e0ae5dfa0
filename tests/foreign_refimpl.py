"""An adapter of refimpl, as a program: exact numbers as "p/q", results kept by the answers that are sent back."""

from __future__ import annotations

import json
import sys
import warnings
from fractions import Fraction
from typing import Any

import numpy as np

import refimpl
from refimpl.results import MeanCoins, TestCoin

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


def private_mean_given(x: Any, parameters: dict[str, Any], coins: dict[str, Any]) -> dict[str, Any] | None:
    budget = {name: Fraction(parameters[name]) for name in ("epsilon", "delta", "lambda_0")}
    edition = getattr(refimpl, parameters["edition"])
    made = refimpl.mean_parameters(parameters["n"], parameters["d"], **budget, edition=edition)
    test = TestCoin(int(coins["test"], 16), bytes.fromhex(coins["seed"]))
    normals = np.array([float.fromhex(v) for v in coins["normals"]])
    return release(
        refimpl.private_mean_given(floats(x), made, MeanCoins(test, tuple(coins["reference"]), normals)).mean
    )


class Replay(np.random.Generator):
    """A generator whose one read of 256 bits gives the seed that the auditor sent."""

    def __init__(self, seed: bytes) -> None:
        super().__init__(np.random.PCG64(0))
        self.seed = seed

    def bytes(self, length: int) -> bytes:
        return self.seed[:length]


def private_mean(x: Any, epsilon: str, delta: str, lambda_0: str, edition: str, seed: str | None) -> Any:
    rng = None if seed is None else Replay(bytes.fromhex(seed))
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "lambda_0": lambda_0}
    return release(refimpl.private_mean(floats(x), **budget, edition=getattr(refimpl, edition), rng=rng).mean)


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
        private_mean,
    )
}
HELLO = {
    "ok": True,
    "protocol": 1,
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
