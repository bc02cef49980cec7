"""torch's `Join` for optimisers of tables: a rank whose loader has ended leaves the round."""

from collections.abc import Callable

from torch.distributed.algorithms.join import JoinHook


class LeaveHook(JoinHook):
    """Leaves once, as soon as this rank is known to have ended while others go on, or when all have ended; then meets them.

    Args:
        leave: the others' steps do not wait for this rank any more.
        meet: the ranks wait for each other.
    """

    def __init__(self, leave: Callable[[], None], meet: Callable[[], None]) -> None:
        self._leave, self._meet, self._has_left = leave, meet, False

    def main_hook(self) -> None:
        """Called for each step of the others."""
        if not self._has_left:
            self._has_left = True
            self._leave()

    def post_hook(self, is_last_joiner: bool) -> None:
        """All ranks have ended."""
        self.main_hook()
        self._meet()
