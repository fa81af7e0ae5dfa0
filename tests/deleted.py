"""fastimpl without one of its two paths, for the tests that show that both are needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fastimpl import certified, covariance, mean, screen
from fastimpl.certified import Ratio
from fastimpl.rows import Floats, Indices, Vectors


def delete_float_path(patch: pytest.MonkeyPatch) -> None:
    """No float decides anything: no matrix is whitened in floats, no vector and no length is known, nor a pair of floats."""
    whiten, of, forms = certified.whiten, certified.Lengths.of, mean._Fine.forms

    def unsure(vectors: Vectors, whitening: certified.Whitening) -> tuple[Floats, Floats]:
        z, error = whiten(vectors, whitening)
        return z, np.full_like(error, np.inf)

    def unknown(self: certified.Lengths, block: slice) -> NDArray[Any]:
        return np.full_like(of(self, block), np.nan)

    def open_forms(self: Any, own: Any, some: Indices) -> tuple[Floats, Floats, Floats]:
        total, rest, error = forms(self, own, some)
        return total, rest, np.full_like(error, np.inf)

    patch.setattr(certified, "float_whitening", lambda *_: None)
    patch.setattr(certified, "kept_whitening", lambda *_: None)
    patch.setattr(certified, "whiten", unsure)
    patch.setattr(certified.Lengths, "of", unknown)
    patch.setattr(certified, "transfer", lambda _, __, squares, **___: np.full(len(squares), np.inf))
    patch.setattr(screen, "_coordinate_length", lambda vectors, _: np.zeros(len(vectors)))
    patch.setattr(mean._Fine, "forms", open_forms)


def guess_in_floats(patch: pytest.MonkeyPatch) -> None:
    """What the bounds leave open is decided as everybody decides it: in float64, with whatever rounding there is."""

    def exceed(self: Any, alive: Indices, index: Indices, threshold: Ratio, **_: bool) -> covariance._Answer:
        y = self._vectors.take(alive).rounded()
        forms = _forms(y.T @ y, self._vectors.take(index))
        bar = threshold.numerator / threshold.denominator
        return covariance._Answer(forms > bar, forms, forms, np.maximum(bar - forms, 0.0))

    def pair_levels(self: Any, vectors: Vectors) -> Indices:
        limits = np.array([ratio.numerator / ratio.denominator for ratio in self._limits.exact])
        return np.searchsorted(limits, _forms(_gram(self._metric), vectors))

    patch.setattr(covariance._ExactGram, "exceed", exceed)
    patch.setattr(mean._Resolver, "_pair_levels", pair_levels)


def decide_open_ones(patch: pytest.MonkeyPatch, *, out: bool) -> None:
    """What the bounds leave open is out, or in, always."""

    def exceed(_: Any, __: Indices, index: Indices, ___: Ratio, **____: bool) -> covariance._Answer:
        nothing = np.zeros(len(index))
        return covariance._Answer(np.full(len(index), out), nothing, nothing + (np.inf if out else 0.0), nothing)

    def pair_levels(self: Any, vectors: Vectors) -> Indices:
        return np.full(len(vectors), len(self._limits.exact) if out else 0, dtype=np.int64)

    patch.setattr(covariance._ExactGram, "exceed", exceed)
    patch.setattr(mean._Resolver, "_pair_levels", pair_levels)


def _gram(metric: mean.Metric) -> Floats:
    if metric.vectors is None or metric.counts is None:
        assert metric.matrix is not None
        return metric.matrix
    y = metric.vectors.rounded()
    return np.asarray(y.T @ (y * metric.counts.dense()[:, None]))


def _forms(gram: Floats, vectors: Vectors) -> Floats:
    """v^T G^-1 v in plain float64."""
    v = vectors.rounded()
    return np.asarray(np.einsum("ij,ji->i", v, np.linalg.lstsq(gram, v.T)[0]))


class Listener:
    """Who decided the comparisons of norms and distances with thresholds, as long as it listens."""

    def __init__(self) -> None:
        self.decided: Counter[str] = Counter()
        self.asked = False

    @property
    def floats(self) -> int:
        """How many comparisons float bounds decided alone."""
        return self.decided["float"] + self.decided["direct"] + self.decided["pairs"]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to every run of a stage, whoever starts it; an audit within a run hears what it would hear anyway."""
        note, descent, screened = certified.note, covariance._Descent.__init__, mean.Screen

        def hear(stage: str, count: int) -> None:
            self.decided[stage] += count
            note(stage, count)

        def norms(*args: Any) -> None:
            self.asked = True
            descent(*args)

        def distances(*args: Any) -> screen.Screen:
            made = screened(*args)
            self.asked |= made.decider != "count"
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(certified, "note", hear)
            patch.setattr(covariance._Descent, "__init__", norms)
            patch.setattr(mean, "Screen", distances)
            yield
