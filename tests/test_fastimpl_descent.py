"""The covariance stage where candidates are more than there is room for: windows of levels, and levels decided in pieces.

Room and pieces are made so small that both happen at sizes that exact arithmetic can follow, and each test sees to it that
they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from search_slow import (
    Family,
    chain_beside_others,
    chain_beside_ties,
    crossed_chain_beside_ties,
    fine_chain_beside_ties,
    first_norm,
    hidden_crossed_chain,
    thin_crossed_chain_beside_ties,
    tilted_chain_beside_others,
)

import fastimpl
import refimpl
from fastimpl import covariance, grams, limits
from fastimpl.certified import Whitening
from fastimpl.covariance import level_counts, paired_result
from fastimpl.exact import QuadraticForm, column_units, gram, integer_rows
from fastimpl.residues import IntegerDistances
from fastimpl.rows import Vectors, pairs
from refimpl.linalg import exact_matrix, inverse_or_none, mahalanobis_squared, second_moment, to_fraction
from refimpl.parameters import PRINTED, REPAIRED

Rng = np.random.Generator
Rows = NDArray[np.float64]
Kind = Callable[[Rng, int, int], Rows]
NONE: NDArray[np.int64] = np.empty(0, dtype=np.int64)


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """No room for candidates, three vectors in a piece; counts windows that end above level 0, and levels in pieces."""
    seen: Counter[str] = Counter()
    run, decide, exceed = covariance._Descent.run, covariance._Descent._decide, covariance._ExactGram.exceed

    def counted_run(self: Any, ell: int, halt: covariance.Halt | None) -> int:
        end = run(self, ell, halt)
        seen["windows"] += 0 <= end < ell and not self._covers(end)
        return end

    def counted_exceed(*args: Any, **options: Any) -> Any:
        seen["asked"] += 1
        return exceed(*args, **options)

    def counted_decide(self: Any, ell: int) -> int:
        left, asked = self._state.left, seen["asked"]
        end = decide(self, ell)
        seen["levels"] += 1
        seen["levels in pieces"] += seen["asked"] > asked + 1
        seen["levels where some go"] += self._state.left < left
        return end

    monkeypatch.setattr(covariance, "_ROOM", 0)
    monkeypatch.setattr(covariance, "blocks", lambda count, rows=3: grams.blocks(count, rows))
    monkeypatch.setattr(covariance._Descent, "run", counted_run)
    monkeypatch.setattr(covariance._Descent, "_decide", counted_decide)
    monkeypatch.setattr(covariance._ExactGram, "exceed", counted_exceed)
    return seen


def grid(rng: Rng, m: int, d: int) -> Rows:
    return rng.integers(-2, 3, (m, d)).astype(float)


def signs(rng: Rng, m: int, d: int) -> Rows:
    return rng.choice([-1.0, 0.0, 1.0], (m, d))


def normal(rng: Rng, m: int, d: int) -> Rows:
    return rng.normal(size=(m, d))


def heavy(rng: Rng, m: int, d: int) -> Rows:
    return rng.standard_t(2, size=(m, d))


def nearly_equal(rng: Rng, m: int, d: int) -> Rows:
    return rng.choice([-1.0, 1.0], (m, d)) * (1 + 2.0**-40 * rng.integers(-3, 4, (m, d)))


def wild(rng: Rng, m: int, d: int) -> Rows:
    return grid(rng, m, d) * 10.0 ** rng.integers(-300, 300, d)


KINDS: list[Kind] = [grid, signs, normal, heavy, nearly_equal, wild]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def tie(rng: Rng, y: Rows, k: int) -> Fraction | None:
    """A lambda_0 whose threshold of some level is the norm of some vector among all, or far too little below it for floats."""
    exact = exact_matrix("y", y)
    inverse = inverse_or_none(second_moment(exact, [Fraction(1, len(y))] * len(y)))
    if inverse is None:
        return None
    norm = to_fraction(mahalanobis_squared(exact, inverse)[int(rng.integers(0, len(y)))])
    norm *= 1 - Fraction(int(rng.integers(0, 2)), 10**25)
    return norm * (1 - Fraction(int(rng.integers(0, 2 * k + 1)), 10 * k)) or None


def a_case(kind: Kind, seed: int) -> tuple[Rows, Fraction, int]:
    """Vectors, a threshold that is often met exactly or near to what norms are on average, and k."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    m, d, k = int(rng.integers(4, 40)), int(rng.integers(1, 4)), int(rng.integers(1, 6))
    y = kind(rng, m, d)
    usual = d * Fraction(int(rng.integers(9, 30)), 10)
    return y, (tie(rng, y, k) if rng.random() < 0.6 else None) or usual, k


@every_kind
def test_windows_and_pieces_equal_exact_arithmetic(kind: Kind, happened: Counter[str]) -> None:
    for seed in range(25):
        y, lam, k = a_case(kind, seed)
        for edition in (REPAIRED, PRINTED):
            fast = fastimpl.stable_second_moment(y, lam, k, edition=edition)
            exact = refimpl.stable_second_moment(y, lam, k, edition=edition)
            assert tuple(fast.entry_level) == exact.entry_level
            assert fast.score == exact.score
        assert fastimpl.largest_good_subset(y, lam) == refimpl.largest_good_subset(y, lam)
    assert happened["windows"] > 2
    assert happened["levels"] > 0 or kind not in {grid, signs, wild}  # others have no ties


@every_kind
def test_an_early_halt_owes_as_much_with_windows_and_pieces(kind: Kind, happened: Counter[str]) -> None:
    for seed in range(25):
        x, lam, k = a_case(kind, seed)
        whole, early = refimpl.stable_covariance(x, lam, k), paired_result(pairs(x), lam, k, REPAIRED, early=True)
        assert early.score == whole.score
        if whole.score < k:
            levels = REPAIRED.weight_levels(k, None)
            counts = level_counts(np.array(whole.entry_level), levels)
            assert np.array_equal(level_counts(early.entry_level, levels), counts)
    assert happened["windows"] > 0


@pytest.mark.parametrize("below", [Fraction(0), Fraction(1, 10**25)])
def test_a_level_is_decided_in_pieces_where_all_norms_are_equal(below: Fraction, happened: Counter[str]) -> None:
    """Lambda_0 is the norm of all, or just below it: no float can tell."""
    y = np.random.default_rng(0).choice([-1.0, 1.0], (50, 1))
    y[::5] = 0.0
    lam = Fraction(5, 4) - below
    assert fastimpl.largest_good_subset(y, lam) == refimpl.largest_good_subset(y, lam)
    exact = refimpl.stable_second_moment(y, lam, 3).entry_level
    assert tuple(fastimpl.stable_second_moment(y, lam, 3).entry_level) == exact
    assert happened["levels in pieces"] == 2
    assert happened["levels where some go"] == (2 if below else 0)


def on_a_line(*squares: float) -> Rows:
    """80 ones, and before them a few numbers of which the squares are given."""
    return np.sqrt(np.append(squares, np.ones(80)))[:, None]


def test_who_comes_above_the_threshold_because_others_have_gone_goes_too() -> None:
    """Each of four only once the one before has gone; on a line forms grow as much as they can."""
    y = on_a_line(3.05, 2.95, 2.86, 2.77)
    lam = 3 * Fraction(84) / Fraction(9163, 100)
    kept = fastimpl.largest_good_subset(y, lam)
    assert kept == set(range(4, 84)) == refimpl.largest_good_subset(y, lam)


def test_what_has_gone_at_two_levels_counts_together() -> None:
    """The first goes at level 1 and nobody is near; the second at level 0, and the third does because of both."""
    y = on_a_line(3, 2.8, 2.62)
    both = [Fraction(275, 8842), Fraction(295, 8842)]
    levels = covariance.good_subset_levels(Vectors((y,)), [83 * limit for limit in both]).dense()
    assert levels.tolist() == [2, 1, 1] + [0] * 80
    for level, limit in enumerate(both):
        assert refimpl.largest_good_subset(y, 83 * limit) == set(np.flatnonzero(levels <= level).tolist())


# Many candidates ------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """However few are left they are called many; counts bounds that are grown, and calls for residues."""
    seen: Counter[str] = Counter()
    grow, below = covariance._Descent._grow, IntegerDistances.below

    def counted_grow(*args: Any) -> Any:
        seen["grown"] += 1
        return grow(*args)

    def counted_below(*args: Any) -> Any:
        seen["residues"] += 1
        return below(*args)

    monkeypatch.setattr(covariance, "_MANY", 0)
    monkeypatch.setattr(covariance, "SEVERAL", 1)
    monkeypatch.setattr(covariance._Descent, "_grow", counted_grow)
    monkeypatch.setattr(IntegerDistances, "below", counted_below)
    return seen


@every_kind
def test_bounds_that_are_grown_and_signs_from_residues_change_no_level(kind: Kind, many: Counter[str]) -> None:
    for seed in range(40):
        y, lam, k = a_case(kind, seed)
        fast, exact = fastimpl.stable_second_moment(y, lam, k), refimpl.stable_second_moment(y, lam, k)
        assert (tuple(fast.entry_level), fast.score) == (exact.entry_level, exact.score)
    assert many["grown"] > 0 or kind is wild


def chain(rng: Rng, links: int, tied: int, direction: int) -> tuple[Rows, Fraction]:
    """Unit vectors that all have the norm lambda_0, and a chain at right angles to them, or nearly: each link comes above
    lambda_0, or just fails to, once those before it are gone."""
    share = Fraction(1, tied)
    rest, squares = Fraction(tied), [Fraction(1)] * tied
    y = [[0.0, 0.0, 1.0]] * tied
    for _ in range(links):
        link = float(share * rest / (1 - share)) ** 0.5 * (1 + direction * 2.0**-52)
        squares.append(Fraction(link) ** 2)
        y.append([0.0, 0.0, link])
        rest += squares[-1]
    y += [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]] * tied
    return rng.permutation(np.array(y)), Fraction(len(y), tied)


@pytest.mark.parametrize("direction", [-3, 0, 3])
def test_a_chain_beside_ties(direction: int, many: Counter[str]) -> None:
    y, lam = chain(np.random.default_rng(direction + 3), 12, 15, direction)
    fast, exact = fastimpl.stable_second_moment(y, lam, 3), refimpl.stable_second_moment(y, lam, 3)
    assert (tuple(fast.entry_level), fast.score) == (exact.entry_level, exact.score)
    assert many["residues"] > 0
    assert (many["grown"] > 3) == (direction > 0)


CHAINS = [
    chain_beside_ties,
    chain_beside_others,
    crossed_chain_beside_ties,
    thin_crossed_chain_beside_ties,
    tilted_chain_beside_others,
    hidden_crossed_chain,
]


@pytest.mark.parametrize("family", CHAINS)
def test_integers_are_asked_a_few_questions_for_each_link(family: Family) -> None:
    """Not about all that tie with the threshold, whenever a link goes."""
    x = family(np.random.default_rng(1), 2000, 8)
    lam, links = first_norm(x), 2000 // 6
    assert lam is not None
    with fastimpl.audit_decisions() as decided:
        result = fastimpl.stable_covariance(x, lam, 98)
    assert np.count_nonzero(result.entry_level) == links
    assert links <= decided["exact"] <= 8 * links


@pytest.fixture
def in_balls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Balls are asked before integers from the first set on; counts whom they tell, and whom not."""
    seen: Counter[str] = Counter()
    tell = covariance._ExactGram._told_by_balls

    def counted(self: Any, alive: NDArray[np.bool_], index: NDArray[np.int64], threshold: Any) -> Any:
        answer, unsure = tell(self, alive, index, threshold)
        seen["told"] += len(index) - len(unsure)
        seen["not told"] += len(unsure)
        seen["from another"] += self._steps > 0
        return answer, unsure

    monkeypatch.setattr(covariance, "_FEW_SETS", 0)
    monkeypatch.setattr(covariance._ExactGram, "_told_by_balls", counted)
    return seen


def test_balls_change_no_level(in_balls: Counter[str]) -> None:
    for kind in KINDS:
        for seed in range(40):
            y, lam, k = a_case(kind, seed)
            fast, exact = fastimpl.stable_second_moment(y, lam, k), refimpl.stable_second_moment(y, lam, k)
            assert (tuple(fast.entry_level), fast.score) == (exact.entry_level, exact.score)
    assert in_balls["told"] > 50
    assert in_balls["not told"] > 50


@pytest.mark.parametrize("steps", [3, 1 << 10])
def test_balls_tell_of_the_links_of_a_chain(
    steps: int, in_balls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one set to the next, or started anew now and then; integers tell of ties only."""
    monkeypatch.setattr(covariance, "_MOST_STEPS", steps)
    x = crossed_chain_beside_ties(np.random.default_rng(1), 600, 8)
    lam = first_norm(x)
    assert lam is not None
    fast, exact = fastimpl.stable_covariance(x, lam, 98), refimpl.stable_covariance(x.tolist(), lam, 98)
    assert tuple(fast.entry_level) == exact.entry_level
    assert in_balls["told"] >= 100
    assert in_balls["from another"] > 50


# What bounds say ------------------------------------------------------------------------------------------------------


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Before every step bounds and margins of all candidates are compared with their forms, in exact arithmetic."""
    seen: Counter[str] = Counter()
    step = covariance._Descent._next

    def forms(self: Any, pending: list[NDArray[np.int64]]) -> Iterator[tuple[int, Fraction]]:
        """Of all candidates, in what is left together with those who are pending."""
        vectors, unit = self._vectors, column_units(self._vectors)
        alive, held = self._state.alive.copy(), np.flatnonzero(self._held)
        alive[np.concatenate([NONE, *pending])] = True
        form = QuadraticForm(gram(vectors.take(np.flatnonzero(alive)), unit), unit)
        if len(held) and not form.is_singular:
            values, denominator = form.values(integer_rows(vectors.take(self._index[held]), unit))
            yield from zip(held.tolist(), (Fraction(value, denominator) for value in values), strict=True)
        else:
            assert not len(held) or self._sum >= 1  # what is left of a regular matrix is regular

    def checked_step(self: Any, ell: int) -> Any:
        for i, form in forms(self, []):
            room = 1 - Fraction(self._sum) + Fraction(self._as_of[i])
            assert Fraction(self._bounds.lower[i]) <= form
            assert self._bounds.upper[i] == np.inf or form * room <= Fraction(self._bounds.upper[i])
            seen["older"] += room < 1
        threshold = Fraction(*self._limits.exact[self._level])
        for i, form in forms(self, self._gone_since):
            if self._growth[i] < self._margin[i]:
                assert form + Fraction(self._margin[i] - self._growth[i]) <= threshold
                seen["margins"] += 1
                seen["grown"] += self._growth[i] > 0
        return step(self, ell)

    monkeypatch.setattr(covariance._Descent, "_next", checked_step)
    return seen


@every_kind
def test_bounds_of_candidates_hold_at_every_step(
    kind: Kind, looked_at: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covariance, "_MANY", 0)
    for seed in range(40):
        y, lam, k = a_case(kind, seed)
        fast, exact = fastimpl.stable_second_moment(y, lam, k), refimpl.stable_second_moment(y, lam, k)
        assert (tuple(fast.entry_level), fast.score) == (exact.entry_level, exact.score)
    assert looked_at["older"] > 0


@pytest.mark.parametrize("many", [0, 256])
def test_bounds_of_candidates_hold_where_many_go_one_after_the_other(
    many: int, looked_at: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outliers of all sizes, and many levels; with seed 41 some who go have older bounds than some who stay."""
    monkeypatch.setattr(covariance, "_MANY", many)
    for seed in (0, 5, 10, 28, 41):
        rng = np.random.default_rng(seed)
        m, d, levels, step = 400, int(rng.integers(1, 4)), 40, Fraction(int(rng.integers(1, 20)), 1000)
        y = rng.normal(size=(m, d)) * np.exp(rng.normal(size=(m, 1)) * rng.choice([0.0, 0.5]))
        y[:40, -1] *= np.linspace(1, rng.uniform(2, 6), 40)
        forms = m * np.einsum("ij,ji->i", y, np.linalg.solve(y.T @ y, y.T))
        first = Fraction(float(np.quantile(forms, rng.uniform(0.8, 0.98))))
        covariance.good_subset_levels(Vectors((y,)), [first * (1 + step * level) for level in range(levels)])
    assert looked_at["older"] > 1000
    assert looked_at["margins"] > 1000


@pytest.fixture
def sharp(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Vectors are whitened sharply from the first base on; counts bases, and those that follow from another."""
    seen: Counter[str] = Counter()
    start, turn = covariance._ExactGram.__init__, covariance._Sharp.turn

    def wanting(self: Any, vectors: Vectors) -> None:
        start(self, vectors)
        self.wants_sharp = True

    def turned(self: Any, alive: NDArray[np.bool_]) -> bool:
        found = turn(self, alive)
        seen["turned" if found else "not turned"] += 1
        return found

    monkeypatch.setattr(covariance._ExactGram, "__init__", wanting)
    monkeypatch.setattr(covariance._Sharp, "turn", turned)
    return seen


@pytest.mark.parametrize("room", [None, 0])
def test_sharp_vectors_change_no_level(room: int | None, sharp: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do they where there is no room to keep them."""
    if room is not None:
        monkeypatch.setattr(covariance, "_MOST_SHARP", room)
    for kind in KINDS:
        for seed in range(25):
            y, lam, k = a_case(kind, seed)
            fast, exact = fastimpl.stable_second_moment(y, lam, k), refimpl.stable_second_moment(y, lam, k)
            assert (tuple(fast.entry_level), fast.score) == (exact.entry_level, exact.score)
    assert (sharp["turned"] > 20) == (room is None)
    assert (sharp["not turned"] > 0) == (room is None)


@pytest.mark.parametrize("family", [crossed_chain_beside_ties, tilted_chain_beside_others, hidden_crossed_chain])
def test_bounds_and_margins_hold_for_sharp_vectors(
    family: Family, looked_at: Counter[str], sharp: Counter[str]
) -> None:
    x = family(np.random.default_rng(1), 600, 8)
    lam = first_norm(x)
    assert lam is not None
    result = fastimpl.stable_covariance(x, lam, 98)
    assert np.count_nonzero(result.entry_level) == 600 // 6
    assert looked_at["margins"] > 100
    assert sharp["turned"] > 3


@pytest.mark.parametrize("digits", [14, 22])
def test_sharp_vectors_are_wanted_where_others_are_asked_in_vain(digits: int) -> None:
    """In columns so dependent that floats see ties grow more than the next link does; a few questions a link are left."""
    x = fine_chain_beside_ties(np.random.default_rng(1), 6000, 10, digits)
    lam = first_norm(x)
    assert lam is not None
    with fastimpl.audit_decisions() as decided:
        result = fastimpl.stable_covariance(x, lam, 98)
    links = np.count_nonzero(result.entry_level)
    assert links == 6000 // 6
    assert decided["F3"] >= 3000
    assert links <= decided["exact"] <= 10 * links


@pytest.mark.parametrize("most", [3, 8])
def test_margins_hold_after_others_have_gone_between_two_bases(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they add is subtracted; if they are too many, margins are forgotten."""
    monkeypatch.setattr(covariance, "_MOST_PENDING", most)
    everybody = np.arange(60)
    plain = Whitening(np.eye(3), np.eye(3), np.zeros(3, dtype=np.int64), np.ones(3), 0.0, 0)
    for seed in range(20):
        vectors = Vectors((np.random.default_rng(seed).normal(size=(60, 3)),))
        unit = column_units(vectors)
        state, integers = covariance._Levels(60), covariance._ExactGram(vectors)
        limit = limits.thresholds([Fraction(1)], Fraction(1, 2))
        before = integers.exceed(state.alive, everybody, limit.exact[0])
        integers.kept = covariance._Kept(everybody, before.margin, np.zeros(60), 0, [everybody[:1]])
        state.remove(everybody[:4], 1)
        integers.forget([everybody[1:3], everybody[3:4]])
        floats = grams.BlockGrams(vectors, np.zeros(3, dtype=np.int64))
        between = covariance._Descent(floats, state, limit, plain, integers)
        monkeypatch.setattr(between, "_collect", lambda ell, at=between: bool(at._take_out(everybody[4:6], ell)))
        assert between.run(0, None) == 0
        assert (integers.kept is None) == (most < 6)
        _, whitening = covariance._whitening(state, floats, integers)
        assert whitening is not None
        at = covariance._Descent(floats, state, limit, whitening, integers)
        at._bar = 0.0
        assert at._collect(0)
        values, denominator = QuadraticForm(gram(vectors.take(everybody[6:]), unit), unit).values(
            integer_rows(vectors.take(at._index), unit)
        )
        left = [Fraction(1, 2) - Fraction(value, denominator) for value in values]
        assert len(at._index) == 54
        assert at._asked.all() == (most > 6)
        assert all(Fraction(margin) <= own for margin, own in zip(at._margin.tolist(), left, strict=True))
        at.run(0, None)
        assert not any(own < 0 and state.alive[i] for i, own in zip(everybody[6:], left, strict=True))


@pytest.mark.parametrize("family", CHAINS)
def test_margins_hold_at_every_step(family: Family, looked_at: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With many who go before what they add is known, few sums before these start anew, and one base after the other."""
    x = family(np.random.default_rng(1), 600, 8)
    lam = first_norm(x)
    assert lam is not None
    monkeypatch.setattr(covariance, "_MANY", 20)
    monkeypatch.setattr(covariance, "_MOST_STEPS", 10)
    result = fastimpl.stable_covariance(x, lam, 98)
    assert np.count_nonzero(result.entry_level) == 600 // 6
    assert looked_at["grown"] > 100
