"""The command that says what a partitioned data set holds, how well it is divided, and what training on it needs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from halohop.launch.options import shared
from halohop.launch.options.fields import field_option
from halohop.launch.options.parsing import numbers
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console
from halohop.recipes.config import TrainConfig

_FANOUT, _BATCH_SIZE = (field_option(TrainConfig, name).parameter.default for name in ("fanout", "batch_size"))


def inspect(
    parts: shared.PartsFolder,
    verify: shared.Verify = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Write an HTML page with charts and the needs of each host."),
    ] = None,
    fanout: Annotated[
        str | None,
        shared.fanout_option(
            "Sample batches with this fanout, to estimate what an epoch needs of each host.", f"with --html: {_FANOUT}"
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Seeds per batch.")] = _BATCH_SIZE,
    batches: Annotated[int, typer.Option(min=1, help="Batches to sample for each host.")] = 8,
    hotness: Annotated[bool, typer.Option("--hotness/--no-hotness", help="Estimate how often each node is read.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Show the contents and balance of a partitioned graph, and what training needs.

    $ halohop inspect parts --verify

    $ halohop inspect parts --html report.html --fanout 15,10,5

    $ halohop inspect parts --json | jq .cut
    """
    from halohop.files.whole import write_file
    from halohop.launch.pages import summary as contents
    from halohop.launch.pages.inspect_page import inspect_page
    from halohop.launch.pages.needs import needs
    from halohop.launch.terminal.progress import stages

    with stages(logs.people()) as progress:
        summary = contents.summarize(parts, verify=verify, progress=progress)
        complete = len(summary["parts_here"]) == summary["num_parts"]
        if fanout or (html and complete):
            fanouts = numbers(fanout or _FANOUT)
            summary["needs"] = needs(parts, fanouts, batch_size=batch_size, batches=batches, hotness=hotness, progress=progress)
    if html is not None:
        write_file(html, inspect_page(summary).encode())
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        Console().print(contents.render(summary))
