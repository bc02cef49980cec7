import pytest
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import InputError
from halohop.store.share import Share, in_shares, shares, spelled


@given(count=st.integers(1, 12), num_parts=st.integers(1, 50))
def test_shares_divide_the_partitions(count: int, num_parts: int) -> None:
    if count > num_parts:
        with pytest.raises(InputError, match=f"share {count - 1}/{count} has no partition, because the data set has {num_parts}"):
            Share(index=count - 1, count=count).of(num_parts)
        return
    held = [Share(index=index, count=count).of(num_parts) for index in range(count)]
    assert sorted(part for parts in held for part in parts) == [*range(num_parts)]
    assert all(part % count == index for index, parts in enumerate(held) for part in parts)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("3/2", "there is no share 3/2; 2 shares are 0/2 to 1/2"),
        ("2/2", "there is no share 2/2"),
        ("0/0", "there is no share 0/0; give at least one share, 0/1"),
        ("a/b", "share 'a/b' is not like 0/3"),
        ("-1/3", "share '-1/3' is not like 0/3"),
        ("", "share '' is not like 0/3"),
        ("0/2,", "share '' is not like 0/3"),
        ("0/2,1/2,0/2", "share 0/2 is given twice; leave one out"),
        ("1/2+2", "share 1/2 is given twice; leave one out"),
        ("1/2+", "share '1/2\\+' is not like 0/3"),
    ],
)
def test_what_is_no_share_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        shares(text)


def test_several_shares_hold_each_partition_once() -> None:
    some = shares("0/3, 2/3,0/1")
    assert spelled(some) == "0/3,2/3,0/1"
    assert in_shares(some, 4) == (0, 1, 2, 3)
    assert in_shares(some[:2], 4) == (0, 2, 3)
    with pytest.raises(InputError, match="share 2/3 has no partition"):
        in_shares(some, 2)


@pytest.mark.parametrize("text", ["0/1", "1/3", "2/3+1", "1/4+3", "0/2,1/4", "2/3,1/3"])
def test_shares_are_spelled_as_they_are_read(text: str) -> None:
    assert spelled(shares(text)) == text
    count = len({*shares(text)})
    assert count == len(shares(text))
