"""The ledger: which statements of the paper must have a check. A test fails if fewer are collected than it promises."""

from __future__ import annotations

__all__ = ["PROMISED"]

PROMISED: tuple[str, ...] = (
    "Lemma 32",
    "Lemma 27",
    "Lemma 28 (i)",
    "Lemma 28 (ii)",
    "Lemma 26",
    "Lemma 25",
    "Lemma 11, 22 (order)",
    "Lemma 11, 22 (trace)",
    "Lemma 42, 57",
    "Lemma 40 (i)",
    "Lemma 40 (ii)",
    "Lemma 39",
    "Lemma 38",
    "Lemma 13, 34",
    "Lemma 9",
    "Lemma 9, 28, 40 (real data)",
    "Claim 10, 58 (PASS)",
    "Claim 10, 58 (FAIL)",
    "Claim 10, 58 (2, 3)",
    "Eq. (135)",
    "Theorem 8, Lemma 15 (release)",
    "Theorem 43 (release)",
    "Algorithm 1 (test)",
    "Algorithm 1 (noise)",
    "Observation 18",
    "StableCovariance",
    "StableMean",
    "Algorithm 1 (scores)",
    "Algorithm 1 (release)",
)
"""Statements with a check, by the number that the check bears. Verdicts are never written here: they are computed."""
