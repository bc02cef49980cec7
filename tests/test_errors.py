import inspect

import pytest

from halohop import errors

CLASSES = [member for _, member in inspect.getmembers(errors, inspect.isclass)]


def drawn_tree() -> dict[str, tuple[str, ...]]:
    """Class name -> its bases, as drawn at the top of the module."""
    drawn: dict[str, tuple[str, ...]] = {}
    branch: list[str] = []
    for line in inspect.getdoc(errors).splitlines():
        entry = line.lstrip("│├└─ ")
        if "Error" not in entry.split("  ")[0] or " as " in line:
            continue
        depth = (len(line) - len(entry)) // 4
        name, *others = entry.split("  ")[0].replace("(", "").replace(")", "").split()
        branch = [*branch[:depth], name]
        drawn[name] = (branch[depth - 1] if depth else "Exception", *others)
    return drawn


def test_the_drawing_is_the_tree() -> None:
    """An error that is added, moved or renamed without its drawing."""
    assert {cls.__name__: tuple(base.__name__ for base in cls.__bases__) for cls in CLASSES} == drawn_tree()


@pytest.mark.parametrize("cls", CLASSES)
def test_caught_by_the_base(cls: type[Exception]) -> None:
    assert issubclass(cls, errors.HalohopError)
    assert cls.__doc__


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [(errors.IdError, ValueError), (errors.SchemaError, ValueError), (errors.DeadlineExceededError, TimeoutError)],
)
def test_caught_by_whoever_expects_the_builtin(cls: type[Exception], builtin: type[Exception]) -> None:
    with pytest.raises(builtin, match="seven"):
        raise cls("seven")


def test_remote_error_shows_the_peers_traceback() -> None:
    error = errors.RemoteError("fetch at host-3 failed", "ZeroDivisionError: division by zero")
    assert error.remote_traceback == "ZeroDivisionError: division by zero"
    assert "fetch at host-3 failed" in str(error)
    assert "division by zero" in str(error)
