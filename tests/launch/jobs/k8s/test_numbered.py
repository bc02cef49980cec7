import pytest
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import InputError
from halohop.launch.jobs.k8s.numbered import numbered
from tests.support.kubernetes import expanded

texts = st.text("ab01$() /", max_size=8)


@given(before=texts, after=texts, count=st.integers(1, 12))
def test_each_pod_gets_its_own_text(before, after, count):
    of_each = [f"{before}{number}{after}" for number in range(count)]
    template = numbered(of_each, "NUMBER")
    assert [expanded(template, {"NUMBER": str(number), "b": "wrong"}) for number in range(count)] == of_each


@given(text=texts, count=st.integers(1, 3))
def test_what_is_the_same_everywhere_stays(text, count):
    assert expanded(numbered([text] * count, "NUMBER"), {"NUMBER": "0", "a": "wrong"}) == text


@pytest.mark.parametrize("of_each", [["a0", "a2"], ["a", "b"], ["0/2", "0/2,1/2"], ["0-0", "1-1"], ["x", "x", "x2"]])
def test_other_differences_are_refused(of_each):
    with pytest.raises(InputError, match=r"pods of one kind differ by their number only, but pod 0 would have"):
        numbered(of_each, "NUMBER")
