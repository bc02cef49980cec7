"""Arithmetic on tensors, behind one door: nothing above knows which kernel runs."""
