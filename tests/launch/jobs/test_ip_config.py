"""`ip_config.txt`: DGL's forms, and errors that name the line."""

from pathlib import Path

import pytest

from halohop.errors import DatasetError, InputError
from halohop.launch.jobs.ip_config import Entry, read_ip_config


def read(folder: Path, text: str | bytes) -> tuple[Entry, ...]:
    file = folder / "ip_config.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_ip_config(file)


def test_forms_of_a_line(tmp_path: Path) -> None:
    text = "\ufeff10.0.0.7 30050\r\n\n   # all of it\n\t10.0.0.8\t\nfd00::9 # IPv6\n[fd00:0::A] 22\ngraph_4.example\nfe80::1%eth0"
    assert read(tmp_path, text) == (
        Entry(host="10.0.0.7", port=30050),
        Entry(host="10.0.0.8"),
        Entry(host="fd00::9"),
        Entry(host="fd00::a", port=22),
        Entry(host="graph_4.example"),
        Entry(host="fe80::1%eth0"),
    )
    assert read(tmp_path, "127.0.0.1") == (Entry(host="127.0.0.1"),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"ip_config\.txt names no host; write a line like 10\.0\.0\.7"),
        ("# nothing\n\n", "names no host"),
        ("a\n10.0.0.8 30050 1\n", r"ip_config\.txt, line 2: '10\.0\.0\.8 30050 1' has 3 words; write a line like 10\.0\.0\.7"),
        ("a\n\nb x\n", "line 3: 'x' is no port, which are from 1 to 65535"),
        ("a 0\n", "line 1: '0' is no port"),
        ("a 65536\n", "line 1: '65536' is no port"),
        ("a ２２\n", "line 1: '２２' is no port"),
        ("10.0.0.256\n", r"line 1: '10\.0\.0\.256' is no address"),
        ("10.0.0\n", r"line 1: '10\.0\.0' is no address"),
        ("10.0.0.7:30050\n", r"line 1: '10\.0\.0\.7:30050' is no address; write .* 10\.0\.0\.7 30050 with the port"),
        ("[10.0.0.7\n", r"line 1: '\[10\.0\.0\.7' is no address or name"),
        ("fd00::7::8\n", "line 1: 'fd00::7::8' is no address"),
        ("ann@a\n", "line 1: 'ann@a' is no address or name of a host; .*; users are given by ssh_username"),
        ("-oProxyCommand=x\n", "line 1: '-oProxyCommand=x' is no address or name"),
        ("a-\n", "line 1: 'a-' is no address or name"),
        ("a\nb\na 30050\n", "line 3: a is on line 1, too; name each host once, and ask for more trainers"),
        ("fd00::7\nfd00:0:0::7\n", "line 2: fd00::7 is on line 1, too"),
        ("10.0.0.7\n127.0.0.1\n", r"line 2: 127\.0\.0\.1 is reached by no other host"),
        ("localhost\nb\n", "line 1: localhost is reached by no other host"),
        ("0.0.0.0\nb\n", r"line 1: 0\.0\.0\.0 is reached by no other host"),
        (b"\xff\xfe1\x000\x00", "is no text"),
    ],
)
def test_what_cannot_work_is_refused_by_its_line(tmp_path: Path, text: str | bytes, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read(tmp_path, text)


def test_a_file_that_is_not_there_or_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file .*none\.txt; name the one that lists the hosts"):
        read_ip_config(tmp_path / "none.txt")
    with pytest.raises(DatasetError, match="is no regular file"):
        read_ip_config(tmp_path)
