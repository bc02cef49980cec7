"""Commands in one string, as DGL's launcher takes them: what is passed on, and what would need a shell."""

import platform
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import InputError
from halohop.launch.jobs.command_string import Program, parsed

OURS = ".".join(platform.python_version_tuple()[:2])


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python3 train.py --lr 0.01", Program(words=("train.py", "--lr", "0.01"))),
        ("  python train.py\n", Program(words=("train.py",))),
        (f"python{OURS} train.py", Program(words=("train.py",))),
        ("train.py --lr=1", Program(words=("train.py", "--lr=1"))),
        ("./train.py", Program(words=("./train.py",))),
        ("python3 -u -u train.py -u", Program(words=("train.py", "-u"))),
        ("python3 -m package.train --x", Program(words=("-m", "package.train", "--x"))),
        ("/opt/env/bin/python train.py", Program(words=("train.py",), python="/opt/env/bin/python")),
        ("'/opt/my env/bin/python3' train.py", Program(words=("train.py",), python="/opt/my env/bin/python3")),
        (
            "python3 train.py 10,25 {graph} [a] *",
            Program(words=("train.py", "10,25", "{graph}", "[a]", "*")),
        ),
        ("""python3 train.py --name "it's" 'a "b"' "" """, Program(words=("train.py", "--name", "it's", 'a "b"', ""))),
        (
            "python3 train.py '$HOME; rm ~ > x' \\$HOME \"a;b & c\" a~b",
            Program(words=("train.py", "$HOME; rm ~ > x", "$HOME", "a;b & c", "a~b")),
        ),
        ("python3 train.py \"costs \\$5\" 5$ 'x'\\''y'", Program(words=("train.py", "costs $5", "5$", "x'y"))),
    ],
)
def test_a_command_becomes_words(command: str, program: Program) -> None:
    assert parsed((command,)) == program


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
def test_what_is_quoted_for_a_shell_arrives_as_it_was(words: list[str]) -> None:
    assert parsed((f"python3 train.py {shlex.join(words)}",)).words == ("train.py", *words)


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ((), "the command stands at the end, in quotes, as one string, .*; there is none"),
        (("python3", "train.py"), "there are 2: python3 train.py"),
        (("",), "the command '' starts no Python"),
        (("bash run.sh",), "the command 'bash run.sh' starts no Python; write it like 'python3 train.py"),
        (("A=1 python3 train.py",), "starts no Python; .* and give environment by extra_envs"),
        (("torchrun train.py",), "starts no Python"),
        (("python3 -m torch.distributed.run train.py",), "trainers are started by the launcher; leave torch.distributed.run"),
        (("python2 train.py",), "asks for python2, but this is Python"),
        (("python3.1 train.py",), r"asks for python3\.1, but this is Python"),
        (("python3",), "it names no script"),
        (("python3 -m",), "-m of Python does not work here"),
        (("python3 -c 'print()'",), "-c of Python does not work here"),
        (("python3 -O train.py",), "-O of Python does not work here"),
        (("python3 train.py 'open",), "cannot be read: No closing quotation"),
        (("cd x && python3 train.py",), "has '&', but no shell runs it"),
        (("python3 train.py; rm x",), "has ';', but no shell runs it"),
        (("python3 train.py > log",), "has '>', but no shell runs it"),
        (("python3 train.py $HOME/x",), r"has '\$HOME', but no shell runs it; write out what it stands for"),
        (('python3 train.py "${HOME}"',), r"has '\$\{HOME', but no shell"),
        (("python3 train.py `hostname`",), "has '`', but no shell"),
        (("python3 train.py ~/data",), "has '~/data', but no shell"),
        (("~/env/bin/python train.py",), "has '~/env/bin/python', but no shell"),
        (("python3 train.py\nrm x",), "but no shell runs it"),
    ],
)
def test_what_cannot_work_is_refused(command: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        parsed(command)
