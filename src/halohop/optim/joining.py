"""torch's `Join` for optimisers of tables: a rank whose loader has ended leaves the round."""

from collections.abc import Callable

from torch.distributed.algorithms.join import JoinHook


class LeaveHook(JoinHook):
    """Leaves once, as soon as this rank is known to have ended while others go on, or when all have ended.

    Args:
        leave: of the optimiser.
    """

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave, self._has_left = leave, False

    def main_hook(self) -> None:
        """Called for each step of the others."""
        if not self._has_left:
            self._has_left = True
            self._leave()

    def post_hook(self, is_last_joiner: bool) -> None:
        """All ranks have ended."""
        self.main_hook()
