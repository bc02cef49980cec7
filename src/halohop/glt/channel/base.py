"""`graphlearn_torch.channel`, over `halohop.hosts.TensorChannel`."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

import halohop
from halohop.errors import DeadlineExceededError as QueueTimeoutError
from halohop.glt.modes import device_of
from halohop.glt.utils.tensor import apply_to_all_tensor
from halohop.glt.utils.units import parse_size

__all__ = ["QueueTimeoutError"]

SampleMessage = dict[str, Tensor]


class ChannelBase(ABC):
    """A line of messages between processes."""

    @abstractmethod
    def send(self, msg: SampleMessage, **kwargs: Any) -> None:
        """Appends a message."""

    @abstractmethod
    def recv(self, **kwargs: Any) -> SampleMessage:
        """Takes the first message."""


class ShmChannel(ChannelBase):
    """Messages in shared memory; raises as `halohop.hosts.TensorChannel`.

    Args:
        capacity: how many may wait.
        shm_size: how many bytes they may have together.
    """

    def __init__(self, capacity: int = 128, shm_size: str | int = "256MB") -> None:
        self._channel, self._pinned = halohop.hosts.TensorChannel(capacity=capacity, max_bytes=parse_size(shm_size)), False

    def pin_memory(self) -> None:
        """Receives page-locked tensors from now on. Raises InputError where there is no GPU."""
        self._pinned = device_of("cuda").type == "cuda"

    def empty(self) -> bool:
        """Whether no message waits."""
        return self._channel.is_empty()

    def send(self, msg: SampleMessage, **kwargs: Any) -> None:
        self._channel.send(msg)

    def recv(self, timeout_ms: float | None = None, **kwargs: Any) -> SampleMessage:
        """Takes the first message; waits for it 180 seconds, unless other milliseconds are given."""
        message = self._channel.receive(timeout=timeout_ms / 1000 if timeout_ms else None)
        return apply_to_all_tensor(message, Tensor.pin_memory) if self._pinned else message


class MpChannel(ChannelBase):
    """Messages of any size, with the arguments of `torch.multiprocessing.Queue`.

    Args:
        maxsize: how many may wait; 0 for any number.
    """

    def __init__(self, maxsize: int = 0) -> None:
        self._channel = halohop.hosts.TensorChannel(capacity=maxsize or 2**62, max_bytes=2**62)

    def send(self, msg: SampleMessage, *, timeout: float | None = None, **kwargs: Any) -> None:
        self._channel.send(msg, timeout=timeout)

    def recv(self, *, timeout: float | None = None, **kwargs: Any) -> SampleMessage:
        return self._channel.receive(timeout=timeout)
