"""The twenty cases, on both implementations: every vector of the package, and the cases that are behaviours.

A vector says what sets, levels and scores are, exactly; refimpl's estimates are exact too. fastimpl's may be off by
ROUNDING, relative to the size of what is rounded.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fastimpl
import refimpl
from proofs_checks import vectors
from refimpl.linalg import to_fraction
from refimpl.parameters import EDITIONS, passes_size_gate

ROUNDING = Fraction(1, 10**12)

VECTORS: list[dict[str, Any]] = vectors.load()["vectors"]

both_implementations = pytest.mark.parametrize("implementation", [refimpl, fastimpl], ids=lambda m: m.__name__)


def of_group(*groups: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", [pytest.param(v, id=v["id"]) for v in VECTORS if v["group"] in groups])


def on_both(*groups: str) -> pytest.MarkDecorator:
    """Every vector of the groups on refimpl, and on fastimpl those that float64 can hold."""
    return pytest.mark.parametrize(
        ("implementation", "vector"),
        [
            pytest.param(implementation, v, id=f"{implementation.__name__}-{v['id']}")
            for v in VECTORS
            if v["group"] in groups
            for implementation in (refimpl, fastimpl)
            if implementation is refimpl or "NotDyadic" not in v["flags"]
        ],
    )


def fractions(rows: Iterable[Iterable[str]]) -> list[list[Fraction]]:
    return [[Fraction(value) for value in row] for row in rows]


def data(implementation: ModuleType, rows: list[list[Fraction]], dtype: str | None = None) -> Any:
    """What an implementation is given: exact rows, or an array that holds just these."""
    if implementation is refimpl and dtype is None:
        return rows
    array = np.array([[float(value) for value in row] for row in rows], dtype=dtype)
    assert [[Fraction(value) for value in row] for row in array.tolist()] == rows
    return array


def exact(numbers: Any) -> list[list[Fraction]]:
    """A matrix, or a vector as a matrix of one row, whatever it is made of."""
    if isinstance(numbers, np.ndarray):
        return [[Fraction(value) for value in row] for row in np.atleast_2d(numbers).tolist()]
    if isinstance(numbers, tuple | list):
        return [list(numbers)]
    return [[to_fraction(value) for value in row] for row in numbers.tolist()]


def spread(run_length: Iterable[tuple[int, Any]]) -> list[Any]:
    return [value for count, value in run_length for _ in range(count)]


def assert_near(
    implementation: ModuleType, found: Any, wanted: list[list[Fraction]], scale: list[list[Fraction]]
) -> None:
    """Equal for refimpl; for fastimpl off by at most ROUNDING times the scale, entry by entry; the scale is given squared."""
    got = exact(found)
    allowed = 0 if implementation is refimpl else ROUNDING**2
    assert [len(row) for row in got] == [len(row) for row in wanted]
    for a, b, c in zip(*map(chain.from_iterable, (got, wanted, scale)), strict=True):
        assert (a - b) ** 2 <= allowed * c, (float(a), float(b))


def assert_stage(implementation: ModuleType, result: Any, expected: dict[str, Any], sets: Any) -> None:
    levels = spread(expected["entry_levels"])
    assert result.score == expected["score"]
    assert list(result.entry_level) == levels
    assert [sum(level <= ell for level in levels) for ell in range(len(expected["sizes"]))] == expected["sizes"]
    if sets is not None:
        assert [len(s) for s in sets] == expected["sizes"]
    wanted = [[Fraction(w) for w in spread(expected["weights"])]]
    assert_near(implementation, result.weights, wanted, [[w * w for w in wanted[0]]])


@on_both("largest_good_subset")
def test_largest_good_subset(implementation: ModuleType, vector: dict[str, Any]) -> None:
    given_, expected = vector["input"], vector["expected"]
    y = data(implementation, vectors.rows(given_["y"]))
    found = implementation.largest_good_subset(y, Fraction(given_["lam"]))
    assert found == frozenset(vectors.indices(expected["subset"]))


@on_both("stable_second_moment", "stable_covariance")
def test_covariance_stage(implementation: ModuleType, vector: dict[str, Any]) -> None:
    given_, expected = vector["input"], vector["expected"]
    name = "y" if vector["group"] == "stable_second_moment" else "x"
    rows = data(implementation, vectors.rows(given_[name]), given_.get("dtype"))
    result = getattr(implementation, vector["group"])(rows, Fraction(given_["lambda_0"]), given_["k"])
    assert_stage(implementation, result, expected, result.good_subsets)
    wanted = fractions(expected["covariance"])
    d = range(len(wanted))
    assert_near(implementation, result.covariance, wanted, [[wanted[i][i] * wanted[j][j] for j in d] for i in d])


@on_both("stable_mean")
def test_mean_stage(implementation: ModuleType, vector: dict[str, Any]) -> None:
    given_, expected = vector["input"], vector["expected"]
    x, covariance = vectors.rows(given_["x"]), fractions(given_["covariance"])
    result = implementation.stable_mean(
        data(implementation, x),
        data(implementation, covariance),
        Fraction(given_["lambda_0"]),
        given_["k"],
        vectors.indices(given_["reference"]),
    )
    assert_stage(implementation, result, expected, result.cores)
    largest = [max(value * value for value in column) for column in zip(*x, strict=True)]
    assert_near(implementation, result.mean, [[Fraction(value) for value in expected["mean"]]], [largest])


@both_implementations
def test_the_mean_stage_takes_the_exact_covariance(implementation: ModuleType) -> None:
    # Sigma is 2/3 and a distance ties: with the float64 nearest to 2/3 the score is 1.
    x = np.array([[1.0]] * 20 + [[2.0]] * 5 + [[0.0]] * 35)
    reference = [0, 20, 21, 30, 31, 32, 33]
    covariance = implementation.stable_covariance(x, 3, 1)
    assert implementation.stable_mean(x, covariance, 3, 1, reference).score == 0
    assert implementation.stable_mean(x, [[2 / 3]], 3, 1, reference).score == 1


# Parameters and gates: one home, refimpl.parameters ------------------------------------------------------------------


@on_both("mean_parameters", "covariance_parameters")
def test_parameters(implementation: ModuleType, vector: dict[str, Any]) -> None:
    arguments = dict(vector["input"])
    edition = EDITIONS[arguments.pop("edition")]
    found = getattr(implementation, vector["group"])(**arguments, edition=edition)
    expected = dict(vector["expected"])
    if "passes" in expected:
        assert implementation.passes_gates(found) == expected.pop("passes")
    if "noise_scale_squared" in expected:
        assert f"{float(found.noise_scale_squared):.5e}".replace("e-0", "e-") == expected.pop("noise_scale_squared")
    assert {name: getattr(found, name) for name in expected} == expected


@of_group("size_gate")
def test_size_gate(vector: dict[str, Any]) -> None:
    given_ = vector["input"]
    make = {"mean": refimpl.mean_parameters, "covariance": refimpl.covariance_parameters}[given_["task"]]
    edition = EDITIONS[given_["edition"]]
    parameters = make(given_["n"], 1, epsilon="1/2", delta="1e-3", lambda_0=given_["lambda_0"], edition=edition)
    assert passes_size_gate(dataclasses.replace(parameters, k=given_["k"])) == vector["expected"]["passes"]


@on_both("bad_parameter")
def test_bad_parameters(implementation: ModuleType, vector: dict[str, Any]) -> None:
    special = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    arguments = {
        name: special.get(value, value) if isinstance(value, str) else value
        for name, value in vector["input"]["arguments"].items()
    }
    kind = {"TypeError": TypeError, "ValueError": ValueError}[vector["expected"]["error"]]
    for function in vector["input"]["functions"]:
        rules = {"edition": refimpl.REPAIRED} if function.endswith("_parameters") else {}
        with pytest.raises(kind, match=rf"\b{vector['expected']['names']}\b"):
            getattr(implementation, function)(**arguments, **rules)


@both_implementations
@pytest.mark.parametrize("task", ["mean", "covariance", "gaussian"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("lambda_0", 0), ("lambda_0", math.nan), ("epsilon", 0), ("epsilon", 1.5), ("delta", 0), ("delta", 1)],
)
def test_private_functions_refuse_bad_parameters(
    implementation: ModuleType, task: str, name: str, value: float
) -> None:
    arguments = {"epsilon": 1, "delta": "1e-6", "lambda_0": 4, "edition": refimpl.REPAIRED} | {name: value}
    with pytest.raises(ValueError, match=name):
        getattr(implementation, f"private_{task}")(np.zeros((40, 2)), **arguments)


# D10, D20: what rows may be ------------------------------------------------------------------------------------------

BUDGET: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "lambda_0": 4}

ON_ROWS: dict[str, tuple[str, Callable[[ModuleType, Any], Any]]] = {
    "largest_good_subset": ("y", lambda m, rows: m.largest_good_subset(rows, 4)),
    "stable_second_moment": ("y", lambda m, rows: m.stable_second_moment(rows, 4, 1)),
    "stable_covariance": ("x", lambda m, rows: m.stable_covariance(rows, 4, 1)),
    "largest_core": ("x", lambda m, rows: m.largest_core(rows, [[1.0]], 4, 1, [0])),
    "stable_mean": ("x", lambda m, rows: m.stable_mean(rows, [[1.0]], "1/4", 1, [0])),
    "private_mean": ("x", lambda m, rows: m.private_mean(rows, **BUDGET, edition=refimpl.REPAIRED)),
    "private_covariance": ("x", lambda m, rows: m.private_covariance(rows, **BUDGET, edition=refimpl.REPAIRED)),
    "private_gaussian": ("x", lambda m, rows: m.private_gaussian(rows, **BUDGET, edition=refimpl.REPAIRED)),
}
on_rows = pytest.mark.parametrize("function", ON_ROWS)


@on_rows
@on_both("not_finite")
def test_rows_that_are_not_finite(implementation: ModuleType, vector: dict[str, Any], function: str) -> None:
    name, call = ON_ROWS[function]
    array = np.array([[float(value) for value in row] for count, row in vector["input"]["x"] for _ in range(count)])
    with pytest.raises(ValueError, match=rf"^{name} must be finite"):
        call(implementation, array)


@on_rows
@both_implementations
def test_numbers_beyond_float64_are_not_finite(implementation: ModuleType, function: str) -> None:
    name, call = ON_ROWS[function]
    with pytest.raises(ValueError, match=rf"^{name} must be finite"):
        call(implementation, np.array([["1e4000"], ["1"]], dtype=np.longdouble))


SECRET = 74565
BAD_ROWS: dict[str, tuple[Any, type[Exception], str]] = {
    "bool": (np.array([[True], [False]]), TypeError, "bool"),
    "object": (np.array([[SECRET], [2]], dtype=object), TypeError, "object"),
    "str": (np.array([[str(SECRET)], ["2"]]), TypeError, "<U5"),
    "complex": (np.array([[SECRET + 1j], [2]]), TypeError, "complex128"),
    "one-dimensional": (np.array([SECRET, 2.0]), ValueError, "two-dimensional"),
    "three-dimensional": (np.full((2, 2, 2), SECRET), ValueError, "two-dimensional"),
    "no columns": (np.zeros((2, 0)), ValueError, "column"),
    "list of str": ([[str(SECRET)], ["2"]], TypeError, "(str|<U5)"),
    "list of bool": ([[True], [False]], TypeError, "bool"),
    "list of complex": ([[SECRET + 1j], [2]], TypeError, "complex"),
    "flat list": ([SECRET, 2], ValueError, "two-dimensional"),
    "ragged list": ([[SECRET, 2], [3]], ValueError, ""),
    "empty list": ([], ValueError, ""),
    "None": (None, TypeError, "(NoneType|object)"),
    "a string": ("12", TypeError, "(str|<U2)"),
    "a dict": ({0: [SECRET]}, TypeError, "(dict|object)"),
}


@on_rows
@both_implementations
@pytest.mark.parametrize("kind", BAD_ROWS)
def test_rows_of_a_wrong_type_or_shape(implementation: ModuleType, function: str, kind: str) -> None:
    name, call = ON_ROWS[function]
    rows, error, told = BAD_ROWS[kind]
    with pytest.raises(error, match=rf"\b{name}\b.*{told}") as caught:
        call(implementation, rows)
    assert str(SECRET) not in str(caught.value)


LIKE = np.array([[1, 2], [3, 5], [-4, 0], [2, 2], [0, -3], [1, 1]], dtype=np.float64)
FORMS: dict[str, Callable[[], Any]] = {
    "float32": lambda: LIKE.astype(np.float32),
    "float16": lambda: LIKE.astype(np.float16),
    "longdouble": lambda: LIKE.astype(np.longdouble),
    "int64": lambda: LIKE.astype(np.int64),
    "int8": lambda: LIKE.astype(np.int8),
    "big-endian": lambda: LIKE.astype(">f8"),
    "Fortran order": lambda: np.asfortranarray(LIKE),
    "list of lists": LIKE.tolist,
    "tuple of lists": lambda: tuple(LIKE.tolist()),
    "list of int": lambda: [[int(value) for value in row] for row in LIKE],
    "list of Fraction": lambda: [[Fraction(value) for value in row] for row in LIKE.tolist()],
    "list of arrays": lambda: list(LIKE),
    "read-only": lambda: _read_only(LIKE),
    "view": lambda: np.repeat(np.repeat(LIKE, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed view": lambda: LIKE[::-1].copy()[::-1],
}


def _read_only(array: NDArray[np.float64]) -> NDArray[np.float64]:
    copied = array.copy()
    copied.flags.writeable = False
    return copied


@both_implementations
@pytest.mark.parametrize("form", FORMS)
def test_rows_in_any_form_are_the_same_rows(implementation: ModuleType, form: str) -> None:
    if implementation is fastimpl and form == "list of Fraction":
        pytest.skip("exact numbers are for refimpl; fastimpl takes what numpy calls real")
    rows, plain = FORMS[form](), implementation.stable_covariance(LIKE, 2, 2)
    before = np.array(rows)
    found = implementation.stable_covariance(rows, 2, 2)
    assert np.array_equal(np.array(rows), before)
    assert (found.score, list(found.entry_level)) == (plain.score, list(plain.entry_level))
    assert exact(found.covariance) == exact(plain.covariance)
    assert implementation.largest_good_subset(rows, 2) == implementation.largest_good_subset(LIKE, 2)
    sigma = [[1.0, 0.0], [0.0, 1.0]]
    means = [implementation.stable_mean(data_, sigma, "1/2", 1, [0, 1]).mean for data_ in (rows, LIKE)]
    assert exact(means[0]) == exact(means[1])


# D12: one replaced row ------------------------------------------------------------------------------------------------

VALUES = st.sampled_from([0, 1, -1, 2, Fraction(29, 16), 3, 1000, 10**6])


@given(
    st.lists(st.tuples(st.sampled_from([1, -1]), st.sampled_from([1, 1, 1, 2])), min_size=44, max_size=44),
    st.lists(VALUES, max_size=2),
    st.integers(0, 43),
    VALUES,
    st.sampled_from([1, 2]),
)
def test_one_replaced_row(bulk: list[tuple[int, int]], unusual: list[Any], index: int, new: Any, k: int) -> None:
    y = [[Fraction(sign * size)] for sign, size in bulk]
    y[: len(unusual)] = [[Fraction(value)] for value in unusual]
    y_prime = [row if i != index else [Fraction(new)] for i, row in enumerate(y)]
    assert len(y) >= 10 * k * 2
    a, b = refimpl.stable_second_moment(y, 2, k), refimpl.stable_second_moment(y_prime, 2, k)
    assert a.good_subsets is not None
    assert b.good_subsets is not None
    assert abs(a.score - b.score) <= 2
    for one, other in ((a.good_subsets, b.good_subsets), (b.good_subsets, a.good_subsets)):
        for ell in range(2 * k):
            assert one[ell] - {index} <= other[ell + 1]
            assert one[ell] <= one[ell + 1]
    if max(a.score, b.score) < k:
        bound = Fraction(1, k * len(y))
        pairs = zip(a.weights, b.weights, strict=True)
        assert all(abs(v - w) <= bound for i, (v, w) in enumerate(pairs) if i != index)
    fate = {(row[0] ** 2, level) for row, level in zip(y, a.entry_level, strict=True)}
    assert len(fate) == len({square for square, _ in fate})  # equal rows have equal fate, and so have opposite ones


# D13: tests given as tables -------------------------------------------------------------------------------------------


def worst_step(
    probabilities: Sequence[Fraction], growth: Fraction, delta: Fraction, sensitivity: int
) -> tuple[Fraction, tuple[int, int], str]:
    """The largest P(z) - (growth P(z') + delta) over both events and all |z - z'| <= sensitivity, growth = e^epsilon."""
    last = len(probabilities)
    events = {"PASS": list(probabilities), "FAIL": [1 - p for p in probabilities]}
    return max(
        (p[z] - growth * p[w] - delta, (z, w), event)
        for event, p in events.items()
        for z in range(last)
        for w in range(max(0, z - sensitivity), min(last, z + sensitivity + 1))
    )


@of_group("ptr_table")
def test_tables(vector: dict[str, Any]) -> None:
    given_, expected = vector["input"], vector["expected"]
    table = [Fraction(value) for value in given_["probabilities"]]
    growth = Fraction(math.exp(float(Fraction(given_["epsilon"]))))
    slack, scores, event = worst_step(table, growth, Fraction(given_["delta"]), given_["sensitivity"])
    assert (slack > Fraction(given_["tolerance"])) == expected["violation"]
    if expected["violation"]:
        assert (list(scores), event) == (expected["worst"]["scores"], expected["worst"]["event"])
        assert [f"{float(table[z]):.4f}" for z in scores] == [
            f"{float(p):.4f}" for p in expected["worst"]["probabilities"]
        ]


@pytest.mark.parametrize("growth", [Fraction(7, 6), Fraction(3, 2), Fraction(41, 40)])
@pytest.mark.parametrize("delta", [Fraction(1, 2), Fraction(1, 16), Fraction(1, 1000)])
def test_our_law_as_a_table(growth: Fraction, delta: Fraction) -> None:
    table = [refimpl.ptr_pass_probability_at_growth(z, growth, delta) for z in range(60)]
    exact_table = [p for p in table if isinstance(p, Fraction)]
    assert exact_table == table
    slack, _, _ = worst_step(exact_table, growth**2, delta, 2)
    assert slack == 0  # private, and nothing is given away: some step meets its inequality with equality


@on_both("ptr_pass_probability_at_growth")
def test_law_at_rational_growth(implementation: ModuleType, vector: dict[str, Any]) -> None:
    given_ = vector["input"]
    found = implementation.ptr_pass_probability_at_growth(
        given_["score"], Fraction(given_["growth"]), Fraction(given_["delta"]), edition=EDITIONS[given_["edition"]]
    )
    assert isinstance(found, Fraction)
    assert found == Fraction(vector["expected"]["probability"])


# D14, D15: randomness and silence -------------------------------------------------------------------------------------

SMALL: dict[str, Any] = {"epsilon": 1, "delta": "9/10", "lambda_0": "11/10"}
"""A budget that lets the gates pass at a few hundred rows. It protects nobody, and need not here."""

PAIRED = np.array([[0.0], [1.0]] * 150 + [[1.0], [0.0]] * 150)
"""Every zero has a one for a partner: both scores are 0, and the test passes for certain."""

SHUFFLED = np.random.default_rng(5).permutation(PAIRED)
"""The same rows in another order: some zeros have a zero for a partner, and a threshold of 11/10 leaves no good subset."""

COLLINEAR = np.hstack([PAIRED, 2 * PAIRED])
"""The second column is twice the first: every covariance is singular, so the test fails for certain."""

RELEASES: dict[str, Callable[[ModuleType, Any, Any], Any]] = {
    "mean": lambda m, x, rng: m.private_mean(x, **SMALL, rng=rng, edition=refimpl.REPAIRED),
    "covariance": lambda m, x, rng: m.private_covariance(x, **SMALL, rng=rng, edition=refimpl.REPAIRED),
    "gaussian": lambda m, x, rng: m.private_gaussian(x, **SMALL, rng=rng, edition=refimpl.REPAIRED),
}
on_releases = pytest.mark.parametrize("task", RELEASES)


def released(result: Any) -> list[list[float]] | None:
    """All numbers that a result releases, or None for FAIL."""
    numbers = [getattr(result, name) for name in ("mean", "covariance") if hasattr(result, name)]
    return None if any(value is None for value in numbers) else [np.ravel(value).tolist() for value in numbers]


@both_implementations
@on_releases
def test_the_paired_rows_pass_for_certain(implementation: ModuleType, task: str) -> None:
    for seed in range(3):
        assert released(RELEASES[task](implementation, PAIRED, np.random.default_rng(seed))) is not None


@both_implementations
@on_releases
def test_unseeded_calls_differ(implementation: ModuleType, task: str) -> None:
    first, second = (released(RELEASES[task](implementation, PAIRED, None)) for _ in range(2))
    assert first != second


@both_implementations
def test_the_global_generator_is_neither_read_nor_moved(implementation: ModuleType) -> None:
    found = []
    for _ in range(2):
        np.random.seed(1)  # noqa: NPY002 - the point is that it does nothing
        found.append(released(RELEASES["mean"](implementation, PAIRED, None)))
        position = np.random.get_state(legacy=False)["state"]["pos"]  # noqa: NPY002 - likewise
        assert position == 624  # as seeding leaves it
    assert found[0] != found[1]


@both_implementations
@on_releases
def test_a_seed_repeats_bit_for_bit(implementation: ModuleType, task: str) -> None:
    first, second, third = (
        released(RELEASES[task](implementation, PAIRED, np.random.default_rng(seed))) for seed in (7, 7, 8)
    )
    assert first == second != third


def _release_into(implementation: ModuleType, results: Any) -> None:
    results.put(released(RELEASES["mean"](implementation, PAIRED, None)))


@both_implementations
def test_forked_processes_differ(implementation: ModuleType) -> None:
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    with warnings.catch_warnings():
        # Python warns of forking beside other threads; BLAS may have left some asleep, and they hold no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        processes = [context.Process(target=_release_into, args=(implementation, results)) for _ in range(4)]
        for process in processes:
            process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    assert len({repr(value) for value in found}) == 4


@both_implementations
def test_mean_and_covariance_of_one_seed_share_nothing(implementation: ModuleType) -> None:
    budget = {"epsilon": 1, "delta": "9/10", "lambda_0": 2}
    mean = implementation.draw_mean_coins(
        implementation.mean_parameters(600, 2, **budget, edition=refimpl.REPAIRED), np.random.default_rng(3)
    )
    covariance = implementation.draw_covariance_coins(
        implementation.covariance_parameters(6000, 2, **budget, edition=refimpl.REPAIRED), np.random.default_rng(3)
    )
    assert mean.test != covariance.test
    assert not set(np.ravel(mean.normals).tolist()) & set(np.ravel(covariance.normals).tolist())
    gaussian = implementation.draw_gaussian_coins(
        implementation.gaussian_parameters(6000, 2, **budget, edition=refimpl.REPAIRED), np.random.default_rng(3)
    )
    assert len({coin.bits for coin in (mean.test, covariance.test, gaussian.mean.test, gaussian.covariance.test)}) == 4


def test_both_implementations_draw_the_same_coins() -> None:
    parameters = refimpl.mean_parameters(600, 3, **SMALL, edition=refimpl.REPAIRED)
    ours, fast = (m.draw_mean_coins(parameters, np.random.default_rng(3)) for m in (refimpl, fastimpl))
    assert ours.test == fast.test
    assert ours.reference == tuple(fast.reference)
    assert ours.normals.tolist() == fast.normals.tolist()
    both = refimpl.gaussian_parameters(3000, 3, **SMALL, edition=refimpl.REPAIRED)
    ours, fast = (m.draw_gaussian_coins(both, np.random.default_rng(3)) for m in (refimpl, fastimpl))
    assert (ours.mean.test, ours.covariance.test) == (fast.mean.test, fast.covariance.test)
    assert ours.mean.normals.tolist() == fast.mean.normals.tolist()


@both_implementations
@on_releases
@pytest.mark.parametrize(
    "rows",
    [PAIRED, SHUFFLED, COLLINEAR, PAIRED * 0, PAIRED * 1e300, PAIRED * 5e-324, PAIRED[:3], PAIRED[:0]],
    ids=["pass", "shuffled", "collinear", "zero", "huge", "subnormal", "gate", "no rows"],
)
def test_silence(
    implementation: ModuleType,
    task: str,
    rows: NDArray[np.float64],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="raise"):
        warnings.simplefilter("always")
        result = RELEASES[task](implementation, rows, np.random.default_rng(1))
    assert (caught, caplog.records, capfd.readouterr()) == ([], [], ("", ""))
    held = {field.name for field in dataclasses.fields(result)}
    assert held == {"mean": {"mean"}, "covariance": {"covariance"}, "gaussian": {"mean", "covariance"}}[task] | {
        "parameters"
    }
    assert vars(result).keys() == held


@both_implementations
@on_releases
@pytest.mark.parametrize("rows", [PAIRED, COLLINEAR, PAIRED[:3]], ids=["pass", "fail", "gate"])
def test_a_generator_is_read_once_for_256_bits(
    implementation: ModuleType, task: str, rows: NDArray[np.float64]
) -> None:
    used, fresh = np.random.default_rng(1), np.random.default_rng(1)
    RELEASES[task](implementation, rows, used)
    fresh.bytes(32)
    assert used.bit_generator.state == fresh.bit_generator.state


# D9, D5: data that FAIL for every coin --------------------------------------------------------------------------------


@both_implementations
@pytest.mark.parametrize(
    "rows",
    [
        COLLINEAR,
        np.hstack([PAIRED, np.ones_like(PAIRED)]),
        np.hstack([PAIRED, SHUFFLED, PAIRED + SHUFFLED]),
        PAIRED * 0 + 3,
    ],
    ids=["proportional", "constant column", "sum of columns", "all rows equal"],
)
def test_degenerate_data_fail_for_every_coin(implementation: ModuleType, rows: NDArray[np.float64]) -> None:
    rows, budget = np.tile(rows, (2, 1)), SMALL | {"lambda_0": 4}  # above d, so that lambda_0 is not what fails
    parameters = refimpl.mean_parameters(*rows.shape, **budget, edition=refimpl.REPAIRED)
    assert refimpl.failure_reason(parameters) is None
    drawn = implementation.draw_mean_coins(parameters, np.random.default_rng(1))
    luckiest = dataclasses.replace(drawn, test=dataclasses.replace(drawn.test, bits=0))
    assert implementation.private_mean_given(rows, parameters, luckiest).mean is None
    plan = refimpl.covariance_parameters(*rows.shape, **budget, edition=refimpl.REPAIRED)
    coins = implementation.draw_covariance_coins(plan, np.random.default_rng(1))
    luckiest = dataclasses.replace(coins, test=dataclasses.replace(coins.test, bits=0))
    assert implementation.private_covariance_given(rows, plan, luckiest).covariance is None


# D16, D17: the noise --------------------------------------------------------------------------------------------------


@on_both("gaussian_release")
def test_gaussian_release(implementation: ModuleType, vector: dict[str, Any]) -> None:
    given_ = vector["input"]
    mean, normals = ([Fraction(value) for value in given_[name]] for name in ("mean", "normals"))
    found = implementation.gaussian_release(
        mean if implementation is refimpl else np.array(mean, dtype=np.float64),
        data(implementation, fractions(given_["covariance"])),
        Fraction(given_["noise_scale"]),
        np.array(normals, dtype=np.float64),
    )
    assert found.dtype == np.float64
    assert found.tolist() == [float(Fraction(value)) for value in vector["expected"]["mean"]]


@of_group("wishart_release")
def test_wishart_release(vector: dict[str, Any]) -> None:
    given_ = vector["input"]
    normals = np.array(fractions(given_["normals"]), dtype=np.float64)
    found = refimpl.wishart_release(fractions(given_["covariance"]), given_["samples"], normals)
    assert exact(found) == fractions(vector["expected"]["covariance"])


# Statistical tests use one fixed seed. Level: each bound is 4.5 standard errors or more, so that a right implementation
# fails any one of them at a fresh seed with probability below 1e-5.


@both_implementations
@pytest.mark.parametrize("sigma", [[[4.0, 0.0], [0.0, 9.0]], [[2.0, 1.0], [1.0, 3.0]]], ids=["diagonal", "full"])
def test_noise_has_the_covariance_it_says(implementation: ModuleType, sigma: list[list[float]]) -> None:
    draws, bound = {"refimpl": (2000, 0.16), "fastimpl": (20000, 0.05)}[implementation.__name__]
    parameters, rng = refimpl.mean_parameters(0, 2, **SMALL, edition=refimpl.REPAIRED), np.random.default_rng(16)
    noise = np.array(
        [
            implementation.gaussian_release(
                [0, 0], sigma, Fraction(1, 4), implementation.draw_mean_coins(parameters, rng).normals
            )
            for _ in range(draws)
        ]
    )
    wanted = np.array(sigma) / 16
    size = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    assert np.abs(noise.mean(axis=0) / np.sqrt(np.diag(wanted))).max() < bound
    assert np.abs((noise.T @ noise / draws - wanted) / size).max() < bound


@both_implementations
def test_covariance_release_has_the_law_it_says(implementation: ModuleType) -> None:
    samples, releases = {"refimpl": (200, 150), "fastimpl": (5481, 400)}[implementation.__name__]
    plan = refimpl.covariance_parameters(4000, 2, epsilon=1, delta="1e-3", lambda_0=4, edition=refimpl.REPAIRED)
    plan, rng, sigma = (
        dataclasses.replace(plan, samples=samples),
        np.random.default_rng(17),
        np.array([[2.0, 1], [1, 3]]),
    )
    found = np.array(
        [
            implementation.wishart_release(sigma, samples, implementation.draw_covariance_coins(plan, rng).normals)
            for _ in range(releases)
        ]
    )
    assert all(release.tobytes() == release.T.copy().tobytes() for release in found)
    assert np.linalg.eigvalsh(found).min() >= 0
    variance = np.array([[2 * 4, 2 * 3 + 1], [2 * 3 + 1, 2 * 9]]) / samples
    assert (np.abs(found.mean(axis=0) - sigma) < 5 * np.sqrt(variance / releases)).all()
    # A sample variance of nearly normal numbers has relative standard error sqrt(2/releases).
    assert (np.abs(found.var(axis=0) / variance - 1) < 5 * math.sqrt(2 / releases)).all()


# D19: how estimates are compared --------------------------------------------------------------------------------------


def agree(a: list[list[float]], b: list[list[float]], rtol: float) -> bool:
    """Whether two matrices agree within ``rtol`` of their largest entry; NaN agrees with nothing, not even with NaN."""
    left, right = np.array(a), np.array(b)
    return bool(np.abs(left - right).max() <= rtol * max(np.abs(left).max(), np.abs(right).max()))


@of_group("comparator")
def test_comparator(vector: dict[str, Any]) -> None:
    given_ = vector["input"]
    a, b = ([[float(Fraction(v)) if v != "nan" else math.nan for v in row] for row in given_[m]] for m in ("a", "b"))
    assert agree(a, b, float(given_["rtol"])) == vector["expected"]["equal"]
