"""The shapes of messages: any difference changes the digest, and no unknown field is dropped in silence."""

from dataclasses import dataclass, field, make_dataclass
from typing import Any, Literal, Optional

import msgspec
import pytest
from torch import Tensor

from halohop.errors import ProtocolError
from halohop.net.messages import server_codec
from halohop.transport import Codec
from halohop.transport.shapes import listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    number: int
    kind: Literal["one", "other"] = "one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    inner: Inner
    several: tuple[Inner, ...] = ()
    named: dict[str, Inner] = field(default_factory=dict)
    perhaps: Inner | None = None
    rows: Tensor | None = None


def shape(name: str = "Message", inner: str = "Part", **fields: Any) -> bytes:
    """The digest of a message with these fields, and a nested one."""
    nested = make_dataclass(inner, [("size", int)], frozen=True)
    columns = [(key, *value) if isinstance(value, tuple) else (key, value) for key, value in fields.items()]
    return Codec([make_dataclass(name, [("part", nested), *columns], frozen=True)]).digest


def test_a_line_for_each_dataclass():
    assert listing([Outer]) == [
        "Inner(number: int, kind: Literal['one', 'other'] = 'one')",
        "Outer(inner: Inner, several: tuple[Inner, ...] = (), named: dict[str, Inner] = dict(), "
        "perhaps: Inner | NoneType = None, rows: NoneType | Tensor = None)",
    ]


def test_the_digest_is_of_names_fields_annotations_and_defaults():
    different = [
        shape(),
        shape(name="Other"),
        shape(inner="Other"),
        shape(labor=bool),
        shape(labour=bool),
        shape(labor=int),
        shape(labor=(bool, False)),
        shape(labor=(bool, True)),
        shape(labor=bool, more=bool),
        shape(more=bool, labor=bool),
        shape(labor=bool | None),
        shape(labor=(dict[str, int], field(default_factory=dict))),
        shape(labor=dict[str, int]),
        shape(labor=dict[str, Tensor]),
        shape(labor=tuple[int, ...]),
        shape(labor=tuple[int]),
        shape(labor=Literal["a"]),
        shape(labor=Literal["b"]),
    ]
    assert len(set(different)) == len(different)
    assert {len(digest) for digest in different} == {16}


def test_what_makes_no_difference():
    assert shape(name="Message") == shape()
    assert shape(rows=Tensor | None) == shape(rows=None | Tensor) == shape(rows=Optional[Tensor])  # noqa: UP045 what is tested
    assert Codec([Outer, Inner]).digest == Codec([Inner, Outer]).digest == Codec([Outer]).digest


@pytest.mark.parametrize("path", [(), ("inner",), ("several", 0), ("named", "a"), ("perhaps",)], ids=str)
def test_an_unknown_field_is_refused_wherever_it_is(path):
    """msgspec drops it: a server that does not know the field would answer another question than it was asked."""
    inner = Inner(number=1)
    message = Outer(inner=inner, several=(inner,), named={"a": inner}, perhaps=inner)
    codec = Codec([Outer])
    (head,) = codec.encode(message)
    assert codec.decode([head]) == message
    body = msgspec.msgpack.decode(head[6:])
    at = body
    for step in path:
        at = at[step]
    at["labor"] = True
    with pytest.raises(ProtocolError, match=r"malformed Outer: .*unknown field `labor`"):
        codec.decode([head[:6] + msgspec.msgpack.encode(body)])


def test_a_message_of_a_later_halohop_is_refused():
    later = make_dataclass("Inner", [("number", int), ("labor", bool, False)], frozen=True)
    assert Codec([later]).digest != Codec([Inner]).digest
    with pytest.raises(ProtocolError, match="unknown field `labor`"):
        Codec([Inner]).decode(Codec([later]).encode(later(number=1, labor=True)))
    with pytest.raises(ProtocolError, match="unknown field `labor`"):  # also where it is of no effect
        Codec([Inner]).decode(Codec([later]).encode(later(number=1)))


def test_all_messages_between_servers_have_such_shapes():
    codec = server_codec()
    names = {line.partition("(")[0] for line in listing(codec._types.values())}
    assert {"Draw", "HopQuery", "Rules", "NodeBlock", "Failure", "MeetReply"} <= names
    assert not [line for line in listing(codec._types.values()) if " at 0x" in line or "<" in line]
