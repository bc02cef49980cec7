"""`dgl.random`, by its name."""

from halohop.dgl.notes import note


def seed(val: int) -> None:
    """Changes nothing: what loaders draw is a function of their own seed."""
    note("seed")
