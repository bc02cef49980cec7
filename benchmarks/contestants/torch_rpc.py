"""torch.distributed.rpc over TCP: TensorPipe's transport `uv` and its channel `basic`, as between hosts."""

import json
import os
import socket
import sys
from typing import Any

import torch
from torch.distributed import rpc

from benchmarks.protocol import Info, serve
from benchmarks.transfer import LOOPBACK, ServerProcess, Wait, contestant, is_server

_ANSWERS: dict[int, torch.Tensor] = {}


def answer_one(size: int) -> torch.Tensor:
    if size not in _ANSWERS:
        _ANSWERS[size] = torch.ones(size, dtype=torch.uint8)
    return _ANSWERS[size]


def answer(port: int) -> None:
    print("starting", flush=True)  # the contestant goes on to join, too
    _join("server", 1, port)
    sys.stdin.read()
    os._exit(0)  # a shutdown would wait for the other side


def _join(name: str, rank: int, port: int) -> None:
    os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
    options = rpc.TensorPipeRpcBackendOptions(
        init_method=f"tcp://{LOOPBACK}:{port}",
        _transports=["uv"],
        _channels=["basic"],
    )
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)


def start(size: int, in_flight: int, repeat: int) -> tuple[Info, Any]:
    from benchmarks.contestants import torch_rpc  # the name under which the other side finds the function

    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    server = ServerProcess("torch_rpc", port=port)
    _join("client", 0, port)

    def submit() -> Wait:
        future = rpc.rpc_async("server", torch_rpc.answer_one, args=(size,))
        return lambda: int(future.wait().nbytes)

    submit()()
    return contestant(submit, server, in_flight=in_flight, repeat=repeat, versions={"torch": torch.__version__})


if __name__ == "__main__":
    if is_server():
        answer(**json.loads(sys.argv[1]))
    else:
        serve(start)
        os._exit(0)  # a shutdown would wait for the other side
