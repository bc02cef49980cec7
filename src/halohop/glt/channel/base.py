"""`graphlearn_torch.channel.base`: what goes from process to process."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from halohop.errors import DeadlineExceededError

SampleMessage = dict[str, Tensor]


class QueueTimeoutError(DeadlineExceededError):
    """A channel stayed empty, or full, until the deadline."""


class ChannelBase(ABC):
    """A line of messages between processes."""

    @abstractmethod
    def send(self, msg: SampleMessage, **kwargs: Any) -> None:
        """Appends a message."""

    @abstractmethod
    def recv(self, **kwargs: Any) -> SampleMessage:
        """Takes the first message."""
