"""Whether a server is there and answers those who share its token: one question, for probes."""

from dataclasses import replace

from halohop.net.messages import MeetReply, MeetRequest, server_codec
from halohop.transport import Limits, Token, connect


def ask_health(address: str, *, token: Token | None, seconds: float) -> tuple[int, ...]:
    """Connects to a server, proves the token, and asks it one thing.

    Args:
        address: ``"HOST:PORT"``.
        token: the secret that it shares; None on the loopback interface.
        seconds: until it must have answered.

    Returns:
        The partitions that it serves.

    Raises:
        PeerLostError, DeadlineExceededError: it is not there, takes no new requests, or does not answer in time.
        AuthenticationError: it has another token, or none.
        ProtocolError: it is of another version, or no server of halohop.
        InputError: not an address, or seconds that are not positive.
    """
    attempt = min(seconds, Limits().attempt_seconds)  # a name may have moved by the next one
    limits = replace(Limits(), call_seconds=seconds, attempt_seconds=attempt, connect_seconds=seconds)
    with connect(address, codec=server_codec(), token=token, limits=limits) as channel:
        reply: MeetReply = channel.submit(MeetRequest(), seconds=seconds).result()
    return reply.parts
