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
        ("partition", "num_parts=0 is wrong", "--parts 0 is wrong"),
        ("train", "num_parts=0 is wrong", "--nodes 0 is wrong"),
        ("train", "use storage='memory'", "use storage memory"),  # no option of this name
        ("train", "one (tables=, --tables FOLDER)", "one (--tables FOLDER)"),
        ("train", "a lower rate (lr, --lr), or (resume=True, --resume)", "a lower rate (--lr), or (--resume)"),
        ("train", "with --method metis (halohop.partition(..., method='metis')), too", "with --method metis, too"),
        ("train", "x: [Errno 2] No such file", "x: No such file"),
        ("train", "leave mode out, and as time_attr, (seed)", "leave --mode out, and as --time-attr, (--seed)"),
        ("train", "write synthetic:powerlaw?nodes=N&edges=N", "write synthetic:powerlaw?nodes=N&edges=N"),
        ("train", "'nodes=1' and /seed=1/x and S3://a?seed=1", "'nodes=1' and /seed=1/x and S3://a?seed=1"),
        ("train", "known: ['a', 'b'], [('u', 'r', 'v')], []", "known: a, b, u,r,v, none"),
        ("train", "failed: Traceback (most recent call last): lr=1", "failed: Traceback (most recent call last): lr=1"),
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


def test_without_options_settings_keep_their_names() -> None:
    assert spelled("batch_size=3, use mode='x y', hosts = ['a']", {}) == "batch_size 3, use mode x y, hosts = ['a']"
