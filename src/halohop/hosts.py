"""How hosts and processes talk: limits of connections, meetings of servers, channels of tensors."""

from halohop.loading.tensor_channel import TensorChannel
from halohop.net.meeting import Meeting, meet
from halohop.transport.base import Limits

__all__ = [
    "Limits",
    "Meeting",
    "TensorChannel",
    "meet",
]
