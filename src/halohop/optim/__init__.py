"""Optimisers of tables: their state lies with the rows, and is updated there."""

from halohop.optim.rules import RowwiseAdagrad, SparseAdagrad, SparseAdam, SparseSGD

__all__ = ["RowwiseAdagrad", "SparseAdagrad", "SparseAdam", "SparseSGD"]
