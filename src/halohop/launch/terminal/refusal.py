"""The error of a run that was refused; in a module of its own, so that commands know it without importing torch."""

from halohop.errors import HalohopError


class RefusedError(HalohopError):
    """A run cannot work, and nothing of it was started; the cause says more."""
