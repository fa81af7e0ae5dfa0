"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Mutant"]


@dataclass(frozen=True)
class Mutant:
    """A target with one fault.

    Attributes
    ----------
    name, fault
        What it is called in the checks' ``refuted_by``, and what is wrong with it.
    implementation
        The target itself.
    survives_because
        Why no lemma refutes it, where only the comparison with refimpl does.
    """

    name: str
    fault: str
    implementation: Any
    survives_because: str = ""
