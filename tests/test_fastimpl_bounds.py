"""Every error bound of the float filter is needed: its statement holds, and would not if the bound were 2^10 smaller.

The terms are found in the source (``terms``), the statements are checked in exact rational arithmetic (``statements``), and the
table here says which statement goes red for which term. A new term without a line in the table is a failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pytest
from statements import STATEMENTS
from terms import Term, shrink, terms

SMALLER = 2.0**-10
GONE = 0.0


class Kill(NamedTuple):
    """The statement that goes red for a term 2^10 too small.

    Attributes
    ----------
    statement
        Name of the statement.
    beside
        Other terms of which each would do alone: with all of them gone the statement still holds, thanks to this one.
    why
        Why no statement can tell a term that is 2^10 too small, for one that is dropped altogether instead.
    """

    statement: str
    beside: tuple[str, ...] = ()
    why: str = ""


UNIT = "certified.Lengths.__init__: length_error(d, self.unit)"
OWN_LENGTH = "certified.surely_above: (d + 8) * UNIT_ROUNDOFF * length"
LAST_STEPS = "certified.surely_above: _ROUNDING"
PER_VECTOR = "certified.surely_above: count * 2.0 ** (-50)"
LEFT_SUM = "certified.removal_whitening: (len(gone) + 8) * UNIT_ROUNDOFF * (1 + float(np.sum(lengths ** 2)))"
SLICES = "sums.enclosed_sums: 2.0 ** (-53) * (2060 + size // _BLOCK) * 1.01"

OTHER_VECTOR, *_ = (
    term.name for term in terms() if "certified.transfer: unit / UNIT_ROUNDOFF * vector_error(d, 0)" in term.name
)
OTHER_LENGTH = "certified.transfer: length_error(d, unit)"

LAST_OF_TRANSFER = (
    "certified.transfer: gram_error(0, d)",
    "certified.transfer: _ROUNDING",
    "certified.transfer: _ROUNDING #2",
    OTHER_LENGTH,
    "certified.transfer: _ROUNDING #3",
    "certified.transfer: _ROUNDING #4",
)
"""The roundings of a few scalar steps, each of which is covered by any one of these."""

OF_SPECTRAL_NORM = (
    "certified._spectral_norm: length_error(a.size, UNIT_ROUNDOFF)",
    "certified._spectral_norm: _ROUNDING",
    "certified._spectral_norm: gram_error(0, len(a)) * frobenius ** 2",
)
"""Likewise."""

A_STEP = "it is one step of the grid of floats, of which there are no parts"

KILLS: dict[str, Kill] = {
    **{name: Kill("transfer", tuple(set(LAST_OF_TRANSFER) - {name})) for name in LAST_OF_TRANSFER},
    "certified.transfer: whitening.units * UNIT_ROUNDOFF * whitening.magnitude": Kill("transfer of a rounded W"),
    OTHER_VECTOR: Kill("transfer that cancels", ("certified.transfer: gram_error(0, d)",)),
    "certified.transfer: UNIT_ROUNDOFF": Kill("transfer", tuple(set(LAST_OF_TRANSFER) - {OTHER_LENGTH})),
    "certified.transfer: 2.0 ** (-24)": Kill("transfer in float32"),
    "certified.transfer: d * d * 2.0 ** (-58) * single": Kill("transfer of vectors that float32 turns to zero"),
    **{name: Kill("spectral norm", tuple(set(OF_SPECTRAL_NORM) - {name})) for name in OF_SPECTRAL_NORM},
    "certified.transfer: underflow_error(d)": Kill("transfer below the roots of floats"),
    "certified.underflow_error: 2.0 ** (-536) * math.sqrt(d)": Kill("norm below the roots of floats, from above"),
    "certified.gram_error: (roundings + 2 * d + 32) * UNIT_ROUNDOFF": Kill("Gram matrix"),
    "certified.vector_error: 1.01 * (d + 8 + units) * UNIT_ROUNDOFF": Kill("whitened vector"),
    "certified.pair_error: 2 * (3 * d + 12) * (d + 6) * UNIT_ROUNDOFF ** 2": Kill(
        "pairs of floats: a small coordinate"
    ),
    "certified.Whitening.relative: 4 * UNIT_ROUNDOFF": Kill("relative error of pairs"),
    "certified.Whitening.relative: pair_error(len(self.size)) * spread": Kill("relative error of pairs that cancel"),
    "certified.Whitening.relative: vector_error(len(self.size), self.units) * spread": Kill("relative error"),
    "certified.whole_error: 8 * UNIT_ROUNDOFF": Kill("vector by integers"),
    "certified.Whitening.relative: whole_error()": Kill("relative error by integers"),
    "certified._whiten_by_integers: whole_error() * np.sqrt(np.einsum('ij,ij->i', z, z))": Kill("vector by integers"),
    "certified._whiten_by_integers: underflow_error(d)": Kill(
        "tiny vector by integers",
        why="relative errors are so small that a far smaller one would do for squares that underflow",
    ),
    "certified.Whitening.underflow: 2.0 ** (-1070) * d * (1.0 + d * largest)": Kill(
        "whitened vector at the edge of underflow"
    ),
    "certified._gram_whitening: gram_error(roundings, d) * weight": Kill("Gram matrix"),
    "certified._refined_whitening: vector_error(d, units) * float(np.linalg.norm(magnitude @ size))": Kill(
        "whitening in white coordinates"
    ),
    "certified._refined_whitening: gram_error(grams.roundings, d) * trace": Kill("Gram matrix in white coordinates"),
    "certified._divided: _ROUNDING": Kill("whitening of a multiple"),
    "certified.exact_whitening: 2.0 ** (-952)": Kill("entries of W"),
    "certified.whiten: vector_error(2 * d + 8, whitening.units)": Kill("whitened vector that cancels"),
    "certified.whiten: whitening.underflow": Kill("whitened vector at the edge of underflow"),
    "certified.whiten: underflow_error(d)": Kill("whitened vector below the roots of floats"),
    "certified._whiten_twice: 4 * UNIT_ROUNDOFF * (size + underflow_error(d))": Kill(
        "pairs of floats: the whole vector"
    ),
    "certified._whiten_twice: pair_error(d) * np.sqrt(np.einsum('ij,ij->i', spread, spread))": Kill(
        "pairs of floats: a small coordinate"
    ),
    "certified._whiten_twice: 2.0 ** (-1070) * 8 * d * (2.0 ** (SCALE + 60) + float(whitening.magnitude.max()))": Kill(
        "pairs of floats at the edge of underflow"
    ),
    "certified._whiten_twice: underflow_error(d)": Kill("pairs of floats below the roots of floats"),
    "certified.Lengths.__init__: 2.0 ** (-24)": Kill("lengths in float32"),
    UNIT: Kill("lengths"),
    "certified.Lengths.__init__: UNIT_ROUNDOFF": Kill("lengths"),
    "certified.Lengths.__init__: 2.0 ** (-148) * d": Kill("lengths below the roots of float32"),
    "certified.Lengths.__init__: 2.0 ** (-150) * d ** 1.5 * (1 + float(np.abs(self._matrix).max()))": Kill(
        "lengths of vectors that float32 turns to zero"
    ),
    "certified.Lengths.__init__: 2.0 ** (-1070) * d": Kill("lengths below the roots of floats"),
    "certified.Lengths.__init__: (2.0 ** 26 * whitening.underflow) ** 2": Kill(
        "lengths of vectors at the edge of underflow"
    ),
    "certified.above_line: _ROUNDING": Kill("forms above a line"),
    OWN_LENGTH: Kill("surely above, many columns"),
    LAST_STEPS: Kill("surely above", (OWN_LENGTH, PER_VECTOR)),
    PER_VECTOR: Kill("surely above", (OWN_LENGTH, LAST_STEPS)),
    "certified.norm_bounds: length_error(d, UNIT_ROUNDOFF)": Kill("norm"),
    "certified.norm_bounds: underflow_error(d)": Kill("norm below the roots of floats, from below"),
    "certified.norm_bounds: underflow_error(d) #2": Kill("norm below the roots of floats, from above"),
    LEFT_SUM: Kill("removal of many"),
    "certified.growth_bounds: size * own * ((4 * d + 24 + len(gone)) * UNIT_ROUNDOFF)": Kill("growth"),
    "certified.growth_bounds: error": Kill("growth of a moved vector"),
    "certified.growth_bounds: gone_error": Kill("growth by a moved vector"),
    "certified.growth_bounds: gone_error #2": Kill("growth by a moved vector"),
    "certified.reach: error": Kill("reach"),
    "certified.reach: underflow_error(z.shape[1])": Kill("reach below the roots of floats"),
    "certified.removal_whitening: (2 * d + 16) * UNIT_ROUNDOFF * (float(np.linalg.norm(m)) + 1)": Kill(
        "removal of few", (LEFT_SUM,)
    ),
    "certified.turned: size * ((d + 8) * UNIT_ROUNDOFF * (length + underflow_error(d)))": Kill(
        "vector after a removal"
    ),
    "certified.turned: underflow_error(d)": Kill("vector after a removal, below the roots of floats"),
    "certified._gram_whitening: residual": Kill("Gram matrix, poor factor"),
    "certified._refined_whitening: residual": Kill("Gram matrix in white coordinates, poor factor"),
    "certified._whiten_twice: error": Kill("pairs of floats: the whole vector"),
    "certified.surely_above: error": Kill("surely above, shorter"),
    "certified.norm_bounds: error * (1 + slack)": Kill("norm, shorter"),
    "certified.norm_bounds: error * (1 + slack) #2": Kill("norm, longer"),
    "certified.removal_whitening: 2 * lengths * gone_error": Kill("removal of a moved vector"),
    "certified.removal_whitening: gone_error ** 2": Kill("removal of a moved zero"),
    "certified.removal_whitening: residual": Kill("removal, poor factor"),
    "certified.turned: stretch * error": Kill("moved vector after a removal"),
    "limits.enclose: math.nextafter(nearest, -math.inf)": Kill("thresholds", why=A_STEP),
    "limits.enclose: math.nextafter(nearest, math.inf)": Kill("thresholds", why=A_STEP),
    "balls.at_most: math.nextafter(lower, -math.inf)": Kill("float below a ball", why=A_STEP),
    "limits._hyperbolic_sides: np.nextafter(nearest, 0.0)": Kill("outlier thresholds", why=A_STEP),
    "limits._hyperbolic_sides: np.nextafter(nearest, np.inf)": Kill("outlier thresholds", why=A_STEP),
    "limits._powers: math.nextafter(_float(low, down), -math.inf)": Kill("powers", why=A_STEP),
    "limits._powers: math.nextafter(_float(high, up), math.inf)": Kill("powers", why=A_STEP),
    "screen.Screen.__init__: np.sqrt(limits.below * (1 - whitening.epsilon)) * _SAFE": Kill("near"),
    "screen.Screen.__init__: np.sqrt(limits.above * (1 + whitening.epsilon)) / _SAFE": Kill("far"),
    "screen.Screen._set_reference: certified.length_error(d, certified.UNIT_ROUNDOFF)": Kill(
        "reference lengths, from above"
    ),
    "screen.Screen._set_reference: error * (1 + slack)": Kill("reference lengths, shorter"),
    "screen.Screen._set_reference: error": Kill("reference lengths, longer"),
    "screen.Screen._set_reference: certified.underflow_error(d)": Kill("tiny reference lengths, from below"),
    "screen.Screen._set_reference: certified.underflow_error(d) #2": Kill("tiny reference lengths, from above"),
    "screen.Screen._set_limits: (self._near - falling[rank])[some] * _SAFE": Kill("inner"),
    "screen.Screen._set_limits: (self._far + rising[rank])[some] / _SAFE": Kill("outer"),
    "screen.Screen._set_limits: (falling_lo[rank] - self._far)[some] * _SAFE": Kill("inside"),
    "screen._Products.__init__: certified.product_error(d, lengths.unit, lengths.relative)": Kill("product in float32"),
    "screen._Products.__init__: 2.0 ** (-124)": Kill("tiny part of a product in float32"),
    "screen._Products.__init__: 2.0 ** (-1020)": Kill("tiny part of a product"),
    "screen._Products.__init__: near ** 2 / lengths.factor * _SAFE": Kill("near, squared"),
    "screen._Products.__init__: far ** 2 / lengths.factor / _SAFE": Kill("far, squared"),
    "screen._Products._start: self._near[first] * _SAFE": Kill("start"),
    "mean._Fine.forms: 2 * certified.pair_error(own.high.shape[1]) * both ** 2": Kill("forms in pairs of floats"),
    "covariance._Descent._line: 2.0 ** (-46)": Kill("line of candidates"),
    "covariance._Descent._remove: 2.0 ** (-40)": Kill("budget spent"),
    "covariance._Descent._remove: math.ceil(min(float(since), 2.0) * 2.0 ** 50) * 2.0 ** (-50)": Kill("gone since"),
    "covariance._kept_margin: 2.0 ** (-40)": Kill("margin"),
    "covariance._Descent._up_to: 2.0 ** (-50)": Kill("bound from a margin"),
    "rows._rounded_sum: 2.0 ** (-48) * (np.abs(s) + np.abs(r))": Kill("sums of four rows"),
    "sums.enclosed_sums: size * 2.0 ** (-41) * (2.0 ** (-53) * (2060 + size // _BLOCK) * 1.01 + 2.0 ** (-52))": Kill(
        "sums from slices"
    ),
    SLICES: Kill("sums from slices"),
    "sums.enclosed_sums: 2.0 ** (-52)": Kill("sums from slices of one row", (SLICES,)),
}

NO_BOUND: dict[str, str] = {
    "limits._geometric_sides: np.nextafter(products[:, 0], 0.0)": "the neighbours of both factors have as much to spare",
    "limits._geometric_sides: np.nextafter(products[:, 1], np.inf)": "the neighbours of both factors have as much to spare",
    "certified.transfer: whitening.underflow": "underflow_error of what the larger of W and B brings back is larger",
    "certified.transfer: d * d * 2.0 ** (-88) * single": "of second order: vector_error of float32 is 2^60 times as large",
    "certified._spectral_norm: 2.0 ** (-50)": "a range: outside of it the Frobenius norm is taken",
    "certified.whiten: length_error(d, UNIT_ROUNDOFF)": "of second order: a factor 1 + 2^-47 of what has 1/100 to spare",
    "certified.Lengths.__init__: d * 2.0 ** (-48)": "of second order: length_error of float32 is more than 2^20 times as large",
    "certified.Lengths._fits_single: 2.0 ** (-60)": "a range: outside of it float64 is taken",
    "certified.Lengths._fits_single: 2.0 ** (-60) #2": "a range: outside of it float64 is taken",
    "certified.surely_above: 2.0 ** (-500)": "a guard: nothing shorter than 2^-300 of the longest vector is ever declared",
    "certified.surely_above: 2.0 ** (-400)": "a guard against division by zero, of vectors that the next line leaves out",
    "certified.surely_above: 2.0 ** (-300)": "the limit of that guard",
    "screen.Screen.__init__: max(min(float(self._inner[self._bulk]), float(below)), 0.0) * _SAFE": (
        "length_error has more to spare than the square of the bar is off by"
    ),
    "screen.Screen._set_limits: 2.0 ** (-400)": "a difference so small is exact, and a negative limit lets nobody in",
    "screen._coordinate_length: ratio.max(axis=1, initial=0.0) * (math.sqrt(1 - whitening.epsilon) * _SAFE)": (
        "the sizes are taken 1/100 too large already"
    ),
    "screen._Products._counted: (radius + self._far[-1]) / _SAFE": "a float above a rounded sum is above the sum itself",
    "covariance._kept_margin: 2.0 ** (-900)": "a range: squares that underflow are far below what a larger margin has to spare",
    "covariance._weighted_second_moment: 2.0 ** (-800)": "a range: outside of it the covariance is computed another way",
}
"""Terms that no statement can show to be needed, and why."""


def named(names: Iterable[str]) -> list[Term]:
    wanted = set(names)
    return [term for term in terms() if term.name in wanted]


def test_every_term_has_its_line() -> None:
    known = {*KILLS, *NO_BOUND}
    assert {term.name for term in terms()} == known
    assert not set(KILLS) & set(NO_BOUND)
    assert {kill.statement for kill in KILLS.values()} <= set(STATEMENTS)


@pytest.mark.parametrize("name", STATEMENTS)
def test_each_statement_holds(name: str) -> None:
    with np.errstate(all="ignore"):
        assert STATEMENTS[name]()


@pytest.mark.parametrize("name", KILLS)
def test_each_bound_would_fail_if_it_were_smaller(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = KILLS[name]
    beside = dict.fromkeys(named(kill.beside), GONE)
    assert len(beside) == len(kill.beside)
    with np.errstate(all="ignore"):
        if beside:
            with pytest.MonkeyPatch.context() as patch:
                shrink(patch, beside)
                assert STATEMENTS[kill.statement](), "the term alone does not do"
        shrink(monkeypatch, {**dict.fromkeys(named([name]), GONE if kill.why else SMALLER), **beside})
        assert not STATEMENTS[kill.statement]()
