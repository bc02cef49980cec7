import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halohop.launch.pages.chart import BOTTOM, HEIGHT, WIDTH, Chart, Series, short, svg, ticks

NUMBERS = st.floats(min_value=-1e12, max_value=1e12, allow_nan=False, allow_subnormal=False)


@given(NUMBERS, NUMBERS)
def test_ticks_enclose_the_data_with_few_round_steps(one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    values = ticks(low, high)
    slack = 1e-6 * max(high - low, abs(low), abs(high))
    assert values[0] <= low + slack
    assert values[-1] >= high - slack
    assert 2 <= len(values) <= 8
    assert values == sorted(set(values))


def numbers(tree: ET.Element, *names: str) -> list[float]:
    return [float(element.get(name, "nan")) for element in tree.iter() for name in names if name in element.attrib]


@pytest.mark.parametrize("kind", ["lines", "bars"])
@pytest.mark.parametrize(
    "y", [[], [0.0], [1.0, 2.0, 3.0], [0.0, 0.0], [math.nan], [math.inf, 1.0], [5e9, 1.0], [-1.0, 1.0], [0.5] * 200], ids=str
)
def test_every_drawing_is_xml_and_stays_inside(kind: str, y: list[float]) -> None:
    series = Series(name="a<b", x=range(1, len(y) + 1), y=y)
    tree = ET.fromstring(svg(Chart(title='"q" & <t>', y_label="<y>", series=(series,), kind=kind)))
    assert all(0 <= value <= WIDTH for value in numbers(tree, "x", "x1", "x2", "cx"))
    assert all(0 <= value <= HEIGHT for value in numbers(tree, "y", "y1", "y2", "cy"))
    assert ("nothing measured" in "".join(tree.itertext())) == (not any(math.isfinite(value) for value in y))


def test_bars_are_stacked() -> None:
    chart = Chart(title="t", y_label="s", kind="bars", series=(Series(name="a", x=[1], y=[3]), Series(name="b", x=[1], y=[1])))
    bars = [{name: float(bar.get(name, "nan")) for name in ("y", "height")} for bar in ET.fromstring(svg(chart)).iter("rect")]
    assert bars[0]["height"] == pytest.approx(3 * bars[1]["height"], abs=0.3)
    assert bars[1]["y"] + bars[1]["height"] == pytest.approx(bars[0]["y"], abs=0.2)


def test_lines_rise_with_the_numbers() -> None:
    points = re.search(r'points="([^"]+)"', svg(Chart(title="t", y_label="y", series=(Series(name="a", x=[1, 2], y=[0, 1]),))))
    assert points is not None
    (x0, y0), (x1, y1) = [map(float, point.split(",")) for point in points[1].split()]
    assert x0 < x1
    assert y0 > y1  # SVG counts downwards


@pytest.mark.parametrize(("value", "text"), [(999, "999"), (1000, "1k"), (-2500, "-2.5k"), (3e9, "3G"), (0.12345, "0.123")])
def test_short(value: float, text: str) -> None:
    assert short(value) == text


def test_zoom_shows_how_the_better_values_differ_and_numbers_the_others() -> None:
    series = Series(name="a", x=range(1, 9), y=[0.612, 0.861, 0.896, 0.904, 0.909, 0.914, 0.919, 0.92])
    plain, zoomed = (svg(Chart(title="t", y_label="y", series=(series,), zoom=zoom)) for zoom in (False, True))

    def heights(drawing: str) -> list[float]:
        return [float(circle.get("cy", "nan")) for circle in ET.fromstring(drawing).iter("circle")]

    assert heights(plain)[3] - heights(plain)[7] < 5
    assert heights(zoomed)[3] - heights(zoomed)[7] > 40
    assert heights(zoomed)[0] == HEIGHT - BOTTOM
    assert "0.612 ↓" in zoomed
    assert "↓" not in plain
    assert "↓" not in svg(Chart(title="t", y_label="y", series=(Series(name="a", x=[1, 2], y=[0.5, 0.5]),), zoom=True))
