"""`halohop top`: what running trainers and servers do, in a table that follows them."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from halohop.errors import TransportError
from halohop.launch.pages.chart import short
from halohop.launch.terminal.console import Console
from halohop.loading.metrics import Counted, address_of, scrape

_COLUMNS = ("endpoint", "batches/s", "edges/s", "near/s", "far/s", "bytes/s", "queue", "kept", "waiting")
_PEER_COLUMNS = ("endpoint", "peer", "calls/s", "ms a call", "bytes/s", "in flight", "retries")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """An endpoint at one moment; `counted` is None where it did not answer, `problem` says why."""

    moment: float
    counted: Counted | None
    problem: str = ""


def look(address: str) -> Look:
    """What an endpoint tells now."""
    try:
        return Look(counted=scrape(address), moment=time.monotonic())
    except TransportError as error:
        return Look(counted=None, moment=time.monotonic(), problem=str(error))


def top(addresses: Sequence[str], *, interval: float, once: bool, console: Console) -> None:
    """Shows a table of the endpoints, anew every `interval` seconds, until Ctrl-C; with `once` a single one.

    Raises:
        InputError: something that is no address.
        TransportError: with `once`, an endpoint does not answer.
    """
    for address in addresses:
        address_of(address)
    before, pause = [look(address) for address in addresses], threading.Event()
    if once:
        pause.wait(interval)
        now = [look(address) for address in addresses]
        for one in (*before, *now):
            if one.problem:
                raise TransportError(one.problem)
        console.print(render(addresses, before, now))
        return
    with Live(render(addresses, before, before), console=console, auto_refresh=False, transient=True) as live:
        while True:
            pause.wait(interval)
            now = [look(address) for address in addresses]
            live.update(render(addresses, before, now), refresh=True)
            before = now


def render(addresses: Sequence[str], before: Sequence[Look], now: Sequence[Look]) -> Group:
    """The tables: rates between two looks at each endpoint, and what is queued at the second."""
    table, peers = _table(_COLUMNS, 1), _table(_PEER_COLUMNS, 2)
    for address, first, second in zip(addresses, before, now, strict=True):
        if second.counted is None:
            table.add_row(address, Text("does not answer", style="red"))
            continue
        seconds = second.moment - first.moment
        table.add_row(address, *endpoint_cells(first.counted.sums if first.counted else {}, second.counted.sums, seconds))
        for peer, counted in sorted(second.counted.peers.items()):
            known = first.counted.peers.get(peer, {}) if first.counted else {}
            peers.add_row(address, peer, *peer_cells(known, counted, seconds))
    return Group(table, peers) if peers.row_count else Group(table)


def endpoint_cells(before: Mapping[str, float], now: Mapping[str, float], seconds: float) -> list[str]:
    """A row of the table: rates per second; a server's queue is what it has taken in, a trainer's: made / begun batches; kept is
    what a server has for loaders and senders of pushes.

    Example:
        >>> endpoint_cells({}, {"batches": 4, "backlog_batches": 4, "wait_seconds": 1}, 2)
        ['-', '-', '-', '-', '-', '0/4', '-', '-']
        >>> endpoint_cells({"batches": 0}, {"batches": 4, "sampled_edges": 8000, "kept_samplers": 1, "wait_seconds": 1}, 2)
        ['2', '4k', '0', '0', '0', '0', '1', '50%']
    """
    rates = [_rate(before, now, seconds, name) for name in ("batches", "sampled_edges", "local_rows", "remote_rows")]
    rates.append(_rate(before, now, seconds, "transport_bytes_sent", "transport_bytes_received"))
    if "backlog_batches" in now:
        queue = f"{now.get('backlog_ready', 0):.0f}/{now['backlog_batches']:.0f}"
    else:
        queue = f"{now.get('transport_in_flight', 0):.0f}"
    kept = [amount for name, amount in now.items() if name.startswith("kept_")]
    state = [queue, f"{sum(kept):.0f}" if kept else "-"]
    if not before or seconds <= 0:
        return [*rates, *state, "-"]
    waited = now.get("wait_seconds", 0) - before.get("wait_seconds", 0)
    return [*rates, *state, f"{min(max(waited / seconds, 0), 1):.0%}"]


def peer_cells(before: Mapping[str, float], now: Mapping[str, float], seconds: float) -> list[str]:
    """A row of the table of peers.

    Example:
        >>> peer_cells({"calls": 0, "call_seconds": 0}, {"calls": 4, "call_seconds": 0.02, "bytes_received": 4000}, 2)
        ['2', '5.0', '2k', '0', '0']
    """
    calls = now.get("calls", 0) - before.get("calls", 0)
    spent = now.get("call_seconds", 0) - before.get("call_seconds", 0)
    return [
        _rate(before, now, seconds, "calls"),
        f"{1000 * spent / calls:.1f}" if calls > 0 else "-",
        _rate(before, now, seconds, "bytes_sent", "bytes_received"),
        f"{now.get('in_flight', 0):.0f}",
        f"{now.get('retries', 0) - before.get('retries', 0):.0f}",
    ]


def _rate(before: Mapping[str, float], now: Mapping[str, float], seconds: float, *names: str) -> str:
    if not before or seconds <= 0:
        return "-"
    return short(max(sum(now.get(name, 0) - before.get(name, 0) for name in names), 0) / seconds)


def _table(columns: Sequence[str], names: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < names else "right", no_wrap=True)
    return table
