"""`graphlearn_torch.channel.mp_channel`."""

import sys
from typing import Any

from halohop.glt.channel.base import ChannelBase, SampleMessage
from halohop.glt.channel.shm_channel import ShmChannel


class MpChannel(ChannelBase):
    """A `ShmChannel` of any size, with the arguments of `torch.multiprocessing.Queue`; without a timeout it waits 180 seconds.

    Args:
        maxsize: how many messages may wait; 0 for any number.
    """

    def __init__(self, maxsize: int = 0) -> None:
        self._channel = ShmChannel(maxsize if maxsize > 0 else sys.maxsize, sys.maxsize)

    def send(self, msg: SampleMessage, **kwargs: Any) -> None:
        """Appends a message; raises as `ShmChannel.send`."""
        self._channel.send(msg)

    def recv(self, *, timeout: float | None = None, **kwargs: Any) -> SampleMessage:
        """Takes the first message; raises as `ShmChannel.recv`.

        Args:
            timeout: seconds.
        """
        return self._channel.recv(None if timeout is None else 1000 * timeout)
