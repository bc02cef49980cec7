import pytest
from typer.main import get_command

from halohop.launch import cli
from halohop.launch.terminal.wording import options_of, spelled


@pytest.mark.parametrize(
    ("command", "message", "said"),
    [
        ("partition", "or pass overwrite=True to replace", "or pass --overwrite to replace"),
        ("partition", "normalize=False", "--no-normalize"),
        ("partition", "normalize=None", "no --normalize"),
        ("partition", "num_parts=0 is wrong", "num_parts=0 is wrong"),  # no option of this name
        ("train", "device='cuda' is not here; use device='cpu'", "--device cuda is not here; use --device cpu"),
        ("train", "deadline_s=0.5 must", "--deadline 0.5 must"),
        ("train", "fanout=(5, -3) must", "--fanout 5,-3 must"),
        ("train", "relation=('a', 'b c', 'd') must", "--relation 'a,b c,d' must"),
        ("train", "lr=-1e-05 must be over 0.", "--lr -1e-05 must be over 0."),
        ("train", "eval_fanout=(5,): one", "--eval-fanout 5: one"),
        ("infer", 'or use form="npy"', "or use --form npy"),
        ("train", "my.lr=3 and --lr=3 stay", "my.lr=3 and --lr=3 stay"),
    ],
)
def test_settings_are_spelled_as_options(command: str, message: str, said: str) -> None:
    assert spelled(message, options_of(get_command(cli.app).commands[command].params)) == said


def test_without_options_nothing_changes() -> None:
    assert spelled("lr=3", {}) == "lr=3"
