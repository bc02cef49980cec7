"""The parts of what is kept: each module has ``make()``, which returns what today's code does, case by case."""
