from html.parser import HTMLParser
from typing import Any

import pytest

from halohop.launch.pages.page import page
from halohop.launch.pages.picture import training_charts

EPOCHS: list[dict[str, Any]] = [
    {
        "epoch": number,
        "loss": 2.0 / number,
        "val_accuracy": None if number == 2 else 0.2 * number,
        "train_seconds": 2.0,
        "wait_seconds": 0.5 if number < 3 else 2.5,
        "edges_per_second": 1e6,
        "remote_share": 0.25,
    }
    for number in (1, 2, 3, 4)
]
PARTS = [{"part": 0, "edges": 90, "cut_edges": 10}, {"part": 1, "edges": 110, "cut_edges": 30}]


class Nesting(HTMLParser):
    """Fails where tags do not match, and lists what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "data")]
        if tag in ("script", "link", "iframe"):
            self.fetched.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(("epochs", "parts"), [(EPOCHS, PARTS), (EPOCHS[:1], []), ([], []), (EPOCHS, PARTS[:1])])
def test_the_page_is_whole_and_fetches_nothing(epochs: list[dict[str, Any]], parts: list[dict[str, Any]]) -> None:
    charts = training_charts(epochs, parts)
    html = page(title="<sage> & co", subtitle="s", figures={"test accuracy": "0.9"}, charts=charts)
    reader = Nesting()
    reader.feed(html)
    assert reader.open == []
    assert reader.fetched == []
    assert "url(" not in html
    assert "<sage>" not in html
    assert html.count("<svg") == len(charts) == (6 if parts else 5)


def test_the_charts_say_what_the_events_say() -> None:
    loss, accuracy, times, edges, remote, cut = training_charts(EPOCHS, PARTS)
    assert loss.series[0].y == [2.0, 1.0, 2 / 3, 0.5]
    assert list(accuracy.series[0].x) == [1, 3, 4]  # the second epoch was not validated
    assert accuracy.mark == (4, "best: 0.800")
    compute, waiting = times.series
    assert compute.y == [1.5, 1.5, 0.0, 0.0]  # the longest wait may be another rank's: never below nothing
    assert waiting.y == [0.5, 0.5, 2.5, 2.5]
    assert edges.series[0].y == [1e6] * 4
    assert remote.series[0].y == [25.0] * 4
    assert (cut.series[0].y, cut.series[1].y) == ([80, 80], [10, 30])
    assert "20.0%" in cut.title


def test_without_a_measured_cut_there_is_none() -> None:
    cut = training_charts(EPOCHS, [{"part": 0, "edges": 5}])[-1]
    assert cut.series[0].y == [5]
    assert cut.series[1].y == [0]
