"""`graphlearn_torch.channel`, by its names."""

from typing import Any

from halohop.glt.channel.base import ChannelBase, MpChannel, QueueTimeoutError, SampleMessage, ShmChannel
from halohop.glt.notes import missing


def __getattr__(name: str) -> Any:
    return missing("channel", name)
