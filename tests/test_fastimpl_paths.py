"""Both paths of fastimpl are needed: at least 100 pinned ties go wrong without the exact one, and are right with it.

Each tie comes in two: the threshold itself, and one less by a part in 10^30. No float64 tells the two from each other, so
whoever decides in floats is wrong about one of them at least. What goes red without the float path: test_fastimpl_deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from deleted import decide_open_ones, delete_float_path, guess_in_floats
from hypothesis import Phase, given, settings
from numpy.typing import NDArray

import fastimpl
from fastimpl import certified, mean
from proofs_checks.audit import Profile, examine, run_check
from proofs_checks.lemma import LEMMAS, AuditError, Violation
from proofs_checks.target import load_target
from refimpl.linalg import exact_matrix, inverse_or_none, mahalanobis_squared, second_moment, to_fraction

Rows = NDArray[np.float64]
LESS = 1 - Fraction(1, 10**30)


class Tie(NamedTuple):
    """Rows, the threshold at which the last of them is in just so, and what to ask."""

    x: Rows
    lam: Fraction
    is_in: Callable[[Fraction], bool]


def data(seed: int) -> Rows:
    """Integers, numbers with full mantissas, nearly parallel columns, columns of any size, rows far off, an offset."""
    rng = np.random.default_rng(seed)
    d = 1 + seed % 3
    x = rng.integers(-9, 10, (14, d)) + (rng.normal(size=(14, d)) if seed % 2 else 0.0)
    kind = seed % 5
    if kind == 1 and d > 1:
        x[:, -1] = x[:, 0] + 2.0**-30 * x[:, -1]
    if kind == 4:
        x += 2.0**30
    return np.asarray(x * (2.0 ** rng.integers(-500, 500, d) if kind == 2 else 0.1 if kind == 3 else 1.0))


def norm_tie(seed: int) -> Tie | None:
    """The largest norm: all rows are a good subset at that threshold, and not below."""
    x = data(seed)
    rows = exact_matrix("x", x)
    inverse = inverse_or_none(second_moment(rows, [Fraction(1, 14)] * 14))
    if inverse is None:
        return None
    largest = max(map(to_fraction, mahalanobis_squared(rows, inverse)))
    return Tie(x, largest, lambda lam: len(fastimpl.largest_good_subset(x, lam)) == len(x))


def distance_tie(seed: int) -> Tie | None:
    """The distance of row 0 from its farthest reference row: it is in LargestCore at half of that, and not below."""
    x, d = data(seed), 1 + seed % 3
    scale = 2.0 ** np.frexp(np.abs(x).max(axis=0))[1]
    sigma = np.eye(d) * scale * scale[:, None] / 3 + np.outer(scale, scale) / 4
    inverse = inverse_or_none(exact_matrix("sigma", sigma))
    assert inverse is not None
    reference = list(range(1, 9))
    moves = exact_matrix("x", np.repeat(x[:1], 8, axis=0)) - exact_matrix("x", x[reference])
    farthest = max(map(to_fraction, mahalanobis_squared(moves, inverse)))
    return (
        Tie(x, farthest / 2, lambda lam: 0 in fastimpl.largest_core(x, sigma, lam, 8, reference)) if farthest else None
    )


@lru_cache
def ties(kind: str) -> tuple[Tie, ...]:
    """At least 110 of a kind."""
    make = {"norms": norm_tie, "distances": distance_tie}[kind]
    found = [tie for seed in range(120) if (tie := make(seed)) is not None]
    assert len(found) >= 110
    return tuple(found)


def wrong(kind: str) -> int:
    """How many of the pinned ties are decided wrongly, one way or the other."""
    return sum(not tie.is_in(tie.lam) or tie.is_in(tie.lam * LESS) for tie in ties(kind))


KINDS = pytest.mark.parametrize("kind", ["norms", "distances"])


@KINDS
def test_pinned_ties_are_right_and_decided_on_integers(kind: str) -> None:
    with certified.audit() as decided:
        assert wrong(kind) == 0
    assert decided["exact"] >= 2 * len(ties(kind))


@KINDS
def test_a_hundred_ties_go_wrong_if_floats_guess(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    guess_in_floats(monkeypatch)
    assert wrong(kind) >= 100


@KINDS
@pytest.mark.parametrize("out", [False, True], ids=["in", "out"])
def test_a_hundred_ties_go_wrong_if_what_is_open_is_all_in_or_out(
    kind: str, out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_open_ones(monkeypatch, out=out)
    assert wrong(kind) >= 100


@KINDS
def test_without_the_exact_path_no_tie_is_answered(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact path is asked: if it cannot be, there is no answer at all."""

    def gone(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr("fastimpl.exact.QuadraticForm.values", gone)
    for tie in ties(kind):
        with pytest.raises(NotImplementedError):
            tie.is_in(tie.lam)


@pytest.mark.parametrize("lam", [Fraction(8), Fraction(8) - Fraction(1, 10**30)])
def test_floats_never_decide_a_tie(lam: Fraction) -> None:
    """Every row of a repeated Hadamard matrix has squared norm exactly d."""
    base = np.array([[1.0]])
    for _ in range(3):
        base = np.block([[base, base], [base, -base]])
    y = np.tile(base, (500, 1))
    with certified.audit() as counts:
        fastimpl.stable_second_moment(y, lam, 3)
    assert counts["exact"] == 8  # one of each kind
    assert len(fastimpl.largest_good_subset(y, lam)) == (4000 if lam == 8 else 0)
    assert len(fastimpl.largest_good_subset(y * 0.1, lam)) in {0, 4000}  # 0.1 d is rounded alike in every row
    assert len(fastimpl.largest_good_subset(y / 3, lam)) == (4000 if lam == 8 else 0)
    with certified.audit() as counts:
        assert [len(fastimpl.largest_good_subset(y, lam + nudge)) for nudge in (-1, 1)] == [0, 4000]
    assert counts["float"] > 0 == counts["exact"]


def test_a_tie_of_distances_is_decided_on_integers() -> None:
    x = np.tile([[0.0], [2.0]], (300, 1))
    reference = list(range(40))
    with certified.audit() as counts:
        fastimpl.stable_mean(x, np.array([[2.0]]), 1, 3, reference)
    assert counts["exact"] > 0
    assert not np.any(fastimpl.stable_mean(x, np.array([[2.0]]), 1, 3, reference).entry_level)
    below = fastimpl.stable_mean(x, np.array([[2.0]]), 1 - Fraction(1, 10**40), 3, reference)
    assert set(map(int, below.entry_level)) == {1}  # Lambda_1 is a little larger
    with certified.audit() as counts:
        assert not np.any(fastimpl.stable_mean(x, np.array([[2.0]]), 2, 3, reference).entry_level)
    assert counts == {"float": 600, "exact": 1}  # the rank


@pytest.mark.parametrize("shift", [-2, 0, 2], ids=["below", "at", "above"])
def test_pairs_of_floats_decide_as_integers_do(shift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Corners of a cube, a few ulps off: distances near the threshold that are no ties to thirty digits, and some that are."""
    rng = np.random.default_rng(8)
    x = 1.0 - 2.0 * (np.arange(64)[:, None] >> np.arange(5) & 1) + rng.integers(-3, 4, (64, 5)) * 2.0**-52
    x[60:] = np.round(x[60:])
    lam = Fraction(8 + shift * 2.0**-50)  # half of four edges, squared
    asked = ("exact", "pairs")
    found = {}
    for many in (-1, 1 << 60):
        monkeypatch.setattr(mean, "_MANY", many)
        with certified.audit() as counts:
            found[many] = fastimpl.largest_core(x, np.eye(5), lam, 28, range(32, 64))
        found[many, "asked"] = [counts[stage] > 0 for stage in asked]
    assert found[-1] == found[1 << 60]
    assert (found[-1, "asked"][1], found[1 << 60, "asked"]) == (True, [True, False])


@KINDS
def test_pinned_ties_are_right_with_pairs_of_floats_before_integers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mean, "_MANY", -1)
    assert wrong(kind) == 0


def test_the_audit_row_refutes_who_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check "equivalence: certified" holds for fastimpl on telling cases, and refutes it with guesses in floats."""
    check, target = LEMMAS["certified_decisions_equals_refimpl"], load_target("fastimpl")
    held = run_check(check, target, Profile("quick", 160, 1))
    assert (held.verdict, 2 * held.tally.telling >= held.tally.cases) == ("held", True)
    assert check.cases is not None
    refuted = []

    @settings(max_examples=40, phases=[Phase.generate])
    @given(check.cases())
    def search(case: Any) -> None:
        try:
            examine(check, target, case)
        except Violation:
            refuted.append(case)

    guess_in_floats(monkeypatch)
    search()
    assert refuted


@pytest.mark.needs_no_floats
def test_the_audit_row_does_not_hold_if_floats_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    delete_float_path(monkeypatch)
    check, target = LEMMAS["certified_decisions_equals_refimpl"], load_target("fastimpl")
    with pytest.raises(AuditError, match=r"\b0 of \d+ cases tell"):
        run_check(check, target, Profile("quick", 40, 1))
