"""Where the shipped vectors come from: families of inputs, each built around one decision that implementers get wrong.

Nothing here is drawn at random. A family places data exactly at a threshold, one unit in the last place beside it, or where two
readings of the paper part, and names the bugs that it is aimed at. ``bugs.json`` says which of its members ship, and for
which bug: a test runs a target with that very bug on each of them and sees it fail.
"""

from __future__ import annotations

from collections.abc import Iterator

# Importing a room registers its families, in this order.
from proofs_checks.vectors.families import covariance, mean, private, public  # noqa: F401 - registers the families
from proofs_checks.vectors.families.building import FAMILIES, Aim

__all__ = ["Aim", "aims"]


def aims() -> Iterator[Aim]:
    """Every member of every family, in a fixed order and once each: for k = 1 the levels k + 1 and 2k are one."""
    seen = set()
    for build in FAMILIES:
        for aim in build():
            if aim.id not in seen:
                seen.add(aim.id)
                yield aim
