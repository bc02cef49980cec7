"""Contestants: each module is a process that does one thing, as often as it is told to (see benchmarks/protocol.py)."""
