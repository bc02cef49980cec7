"""Benchmarks against peers, side by side in one run. How to run them: docs/benchmarks.md."""
