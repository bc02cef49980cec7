"""A host across the network as a shard: same requests, same replies."""

from concurrent.futures import Future

from halohop.store.requests import (
    FetchReply,
    FetchRequest,
    LocateReply,
    LocateRequest,
    Reply,
    Request,
    SampleReply,
    SampleRequest,
    SelectReply,
    SelectRequest,
)
from halohop.transport import Channel, Codec


def graph_codec() -> Codec:
    """The messages that hosts exchange."""
    return Codec(
        [
            SampleRequest,
            SampleReply,
            FetchRequest,
            FetchReply,
            LocateRequest,
            LocateReply,
            SelectRequest,
            SelectReply,
        ]
    )


class RemoteShard:
    """The partitions that a peer holds. The channel gives every call a deadline and names the peer in its errors."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def ask(self, request: Request[Reply]) -> "Future[Reply]":
        """Sends the request and returns at once."""
        return self.channel.submit(request)
