"""Messages as frames: a small typed header, and one raw buffer per tensor. No pickle.

A message is a dataclass of numbers, strings, tuples, dicts, nested dataclasses and tensors. Its header is msgpack, validated
field by field against the type's annotations (by msgspec) when it is read; unknown fields are refused. A tensor stands in it as
``[dtype, size, size, ...]`` and its bytes are the next buffer. Sending copies no tensor that lies in one piece on the CPU;
receiving copies none that arrived aligned. Many whole numbers are sent in as few bits as they take (`integers`): then
``[dtype, way, base]`` stands for the dtype.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, is_dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
import numpy as np
import torch
from torch import Tensor

from halohop.errors import DeadlineExceededError, InputError, PeerLostError, ProtocolError
from halohop.ops.pool import Pool
from halohop.store.forms import Check, check_of
from halohop.transport.handshake import DIGEST_BYTES
from halohop.transport.integers import packed, unpacked
from halohop.transport.shapes import StrictTypes, digest

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Contiguous bytes."""

_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float32, torch.float64),
        *(torch.complex64, torch.complex128),
    )
}
_MAX_DIMENSIONS = 64
_UNPACKED = 8  # times the bytes of the largest message
IDLE_BYTES = 2**28
"""Of memory that a codec keeps for the next numbers that it makes narrow or wide."""

LOSSES = {"lost": PeerLostError, "unanswered": DeadlineExceededError}
"""Kinds of failures of a handler that waits for peers of its own, and did not get their answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reply of a peer that could not answer.

    Args:
        kind: "remote" (the handler raised), "protocol" (the request was not understood), "too_large" (the reply was), or one of
            `LOSSES`.
        message: one line.
        traceback: as printed on the peer.
    """

    kind: str
    message: str
    traceback: str


def size_of(frames: Iterable[Buffer]) -> int:
    """Bytes in all frames together."""
    return sum(memoryview(frame).nbytes for frame in frames)


class Codec:
    """Turns messages of known types into frames and back.

    Args:
        types: the dataclasses that may travel; both peers list the same ones. Types nested in them need no mention.

    Attributes:
        digest: of all these types, for peers to see whether they know the same ones.

    Raises:
        InputError: a type is no dataclass, two have one name, or a field's annotation cannot be sent.

    Example:
        >>> from halohop.store.requests import LocateReply
        >>> codec = Codec([LocateReply])
        >>> header, ids = codec.encode(LocateReply(gid=torch.tensor([3, 1])))
        >>> codec.decode([header, ids]).gid
        tensor([3, 1])
    """

    def __init__(self, types: Iterable[type]) -> None:
        schema = _schema_of((*types, Failure))
        self._types, self._strict, self._forms, self.digest = schema.types, schema.strict, schema.forms, schema.digest
        self._pool = Pool(limit_bytes=IDLE_BYTES)

    def encode(self, message: Any) -> list[Buffer]:
        """Header and buffers. The buffers share memory with the message's tensors: leave these unchanged until they are sent.

        Raises:
            InputError: the type is not registered, or a value in it cannot be sent.
        """
        name = type(message).__name__
        if self._types.get(name) is not type(message):
            raise InputError(f"{name} is not a registered message type; known: {sorted(self._types)}")
        buffers: list[Buffer] = []

        def put(value: Any) -> list[Any]:
            if not isinstance(value, Tensor):
                raise InputError(f"{name} holds a {type(value).__name__}, which cannot be sent")
            dtype = str(value.dtype).removeprefix("torch.")
            if dtype not in _DTYPES or value.layout is not torch.strided:
                raise InputError(f"{name} holds a {value.layout} tensor of {value.dtype}, which cannot be sent")
            small = packed(value, self._pool) if value.is_contiguous() and value.device.type == "cpu" else None
            buffers.append(_bytes_of(value if small is None else small.data))
            return [dtype if small is None else [dtype, small.way, small.base], *value.shape]

        try:
            body = msgspec.msgpack.Encoder(enc_hook=put).encode(message)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise error if isinstance(error, InputError) else InputError(f"{name} cannot be sent: {error}") from error
        tag = name.encode()
        return [bytes([len(tag)]) + tag + body, *buffers]

    def type_of(self, frames: Sequence[Buffer]) -> type | None:
        """The type that a message says it has; None if it is no registered one."""
        if not frames or not len(frames[0]):
            return None
        header = memoryview(frames[0])
        return self._types.get(bytes(header[1 : 1 + header[0]]).decode(errors="replace"))

    def decode(self, frames: Sequence[Buffer], *, max_bytes: int = 2**30) -> Any:
        """The message. Its tensors are views of writable, aligned buffers, which must be the caller's to give away; copies else.

        Args:
            frames: as they came.
            max_bytes: of the messages that are taken; numbers that were packed may take eight times as much each.

        Raises:
            ProtocolError: the frames are not a message of a registered type; whatever is wrong with them.
        """
        if not frames or not len(frames[0]):
            raise ProtocolError("a message without a header")
        header = memoryview(frames[0])
        end = 1 + header[0]
        message = self.type_of(frames)
        if message is None:
            raise ProtocolError(f"unknown message type {bytes(header[1:end])[:100]!r}; known here: {sorted(self._types)}")
        buffers = iter(frames[1:])

        def take(kind: type, value: Any) -> Tensor:
            if kind is not Tensor:
                raise ProtocolError(f"no way to read a {kind}")
            buffer = next(buffers, None)
            if buffer is None:
                raise ProtocolError("a tensor without its bytes")
            return _tensor_of(value, memoryview(buffer), self._pool, _UNPACKED * max_bytes)

        try:
            self._strict[message].decode(header[end:])
            result: Any = msgspec.msgpack.Decoder(message, dec_hook=take).decode(header[end:])
            if check := self._forms[message]:
                check(result, message.__name__, {})
        except ProtocolError as error:
            raise ProtocolError(f"malformed {message.__name__}: {error}") from None
        except (
            Exception
        ) as error:  # whatever hostile bytes provoke, in msgspec or in the message's own checks, is the peer's fault
            raise ProtocolError(f"malformed {message.__name__}: {error}") from error
        if next(buffers, None) is not None:
            raise ProtocolError(f"malformed {message.__name__}: more buffers than tensors")
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Schema:
    """What a codec derives from its message types."""

    types: dict[str, type]
    strict: dict[type, msgspec.msgpack.Decoder[Any]]
    forms: dict[type, Check | None]
    digest: bytes


@lru_cache(maxsize=8)
def _schema_of(types: tuple[type, ...]) -> _Schema:
    """Kept, because reading the annotations takes 25 ms and every connection has a codec of its own."""
    known: dict[str, type] = {}
    strict: dict[type, msgspec.msgpack.Decoder[Any]] = {}
    strict_types = StrictTypes()
    for message in types:
        name = message.__name__
        if not is_dataclass(message):
            raise InputError(f"{name} is not a dataclass, so it cannot be a message")
        if known.setdefault(name, message) is not message or len(name.encode()) > 255:
            raise InputError(f"two message types are called {name!r} (or the name is too long); rename one")
        try:
            msgspec.msgpack.Decoder(message, dec_hook=_refuse)
            strict[message] = msgspec.msgpack.Decoder(strict_types.of(message))
        except TypeError as error:
            raise InputError(f"message type {name} has a field that cannot be sent: {error}") from error
    forms = {message: check_of(message) for message in known.values()}
    return _Schema(types=known, strict=strict, forms=forms, digest=digest(known.values(), DIGEST_BYTES))


def _refuse(kind: type, value: Any) -> Any:
    raise NotImplementedError


class _Memory:
    """A tensor's memory for numpy, which keeps the tensor. Most of torch's own ways there let other threads run, again and
    again, so that with several of them a message takes many switches.
    """

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def __array_interface__(self) -> dict[str, Any]:
        place = (self._tensor.data_ptr(), False)
        return {"version": 3, "typestr": "|u1", "shape": (self._tensor.nbytes,), "data": place}


def _bytes_of(tensor: Tensor) -> memoryview:
    if tensor.device.type != "cpu" or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return np.asarray(_Memory(tensor)).data if tensor.numel() else memoryview(b"")


def _tensor_of(spec: Any, buffer: memoryview, pool: Pool, most_bytes: int) -> Tensor:
    """The tensor that `spec`, an unchecked ``[dtype, *shape]``, describes; allocates nothing before the sizes agree."""
    if not isinstance(spec, list | tuple) or not spec or len(spec) > 1 + _MAX_DIMENSIONS:
        raise ProtocolError("a tensor without dtype and shape")
    name, *how = spec[0] if isinstance(spec[0], list | tuple) and len(spec[0]) == 3 else (spec[0],)
    dtype = _DTYPES.get(name) if isinstance(name, str) else None
    shape = spec[1:]
    whole = all(type(number) is int for number in (*how, *shape))
    if dtype is None or not whole or min(shape, default=0) < 0 or math.prod(max(size, 1) for size in shape) >= 2**60:
        raise ProtocolError(f"no such dtype or shape: {str(spec)[:100]}")
    if not how and math.prod(shape) * dtype.itemsize != buffer.nbytes:
        raise ProtocolError(f"{buffer.nbytes} bytes are no tensor of {dtype} and shape {str(shape)[:100]}")
    if buffer.nbytes and (
        buffer.readonly or np.frombuffer(buffer, dtype=np.uint8).__array_interface__["data"][0] % min(dtype.itemsize, 8)
    ):
        buffer = memoryview(bytearray(buffer))
    if how:
        return unpacked(buffer, shape, dtype, how, pool, most_bytes=most_bytes)
    if not buffer.nbytes:
        return torch.empty(shape, dtype=dtype)
    if dtype is torch.bool and np.frombuffer(buffer, dtype=np.uint8).max() > 1:
        raise ProtocolError("a bool that is neither 0 nor 1")
    flat = torch.frombuffer(buffer, dtype=dtype)
    return flat if len(shape) == 1 else flat.view(shape)
