"""Two codes of the paper as third parties write them, each with one flaw, and their adapters."""
