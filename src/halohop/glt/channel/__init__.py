"""`graphlearn_torch.channel`, by its names."""

from typing import Any

from halohop.glt.channel.base import ChannelBase, QueueTimeoutError, SampleMessage
from halohop.glt.channel.mp_channel import MpChannel
from halohop.glt.channel.shm_channel import ShmChannel
from halohop.glt.notes import missing


def __getattr__(name: str) -> Any:
    return missing("channel", name)
