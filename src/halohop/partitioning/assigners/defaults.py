"""Defaults of partitioning that the command line shows before torch is imported."""

TOLERANCE = 0.05
"""How much more than the mean load a partition may have."""
