"""halohop's channel over TCP, with a token, as between hosts."""

import json
import sys
from dataclasses import dataclass
from typing import Any

import torch

import halohop
from benchmarks.protocol import Info, serve
from benchmarks.transfer import SECRET, ServerProcess, Wait, contestant, is_server, say_where
from halohop.transport import Codec, Limits, Token, tcp


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    data: torch.Tensor


CODEC = Codec([Question, Answer])


def token(encrypt: bool) -> Token:
    return Token(f"a secret {SECRET}", encrypt=encrypt)


def answer(size: int, encrypt: bool) -> None:
    data = torch.ones(size, dtype=torch.uint8)

    def reply(question: Question) -> Answer:
        return Answer(data=data[: question.size])

    with tcp.serve(reply, codec=CODEC, token=token(encrypt), limits=Limits()) as server:
        say_where(server.address)


def start(size: int, in_flight: int, repeat: int, encrypt: bool = False) -> tuple[Info, Any]:
    server = ServerProcess("halohop_channel", size=size, encrypt=encrypt)
    channel = tcp.connect(server.address, codec=CODEC, token=token(encrypt))
    channel.call(Question(size=size))

    def submit() -> Wait:
        future = channel.submit(Question(size=size))
        return lambda: future.result().data.nbytes

    versions = {"halohop": halohop.__version__, "torch": torch.__version__}
    return contestant(submit, server, in_flight=in_flight, repeat=repeat, versions=versions)


if __name__ == "__main__":
    answer(**json.loads(sys.argv[1])) if is_server() else serve(start)
