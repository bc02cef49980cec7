"""Texts of several pods as the one text that their template has: they differ by the pod's number only."""

from collections.abc import Sequence

from halohop.errors import InputError


def numbered(texts: Sequence[str], variable: str) -> str:
    """The text of all pods, with the environment variable that holds a pod's number where that stands.

    Kubernetes replaces ``$(NAME)`` in arguments and values; in what is the same everywhere, ``$`` is doubled, so that it stays.

    Args:
        texts: by the number of the pod, from 0.
        variable: has the number in the pod.

    Raises:
        InputError: they differ by more than the number.

    Example:
        >>> numbered(["serve-0/3", "serve-1/3", "serve-2/3"], "NUMBER"), numbered(["$(HOME)", "$(HOME)"], "NUMBER")
        ('serve-$(NUMBER)/3', '$$(HOME)')
    """
    first, *others = texts
    if all(text == first for text in others):
        return literal(first)
    alike = (len({*letters}) == 1 for letters in zip(*texts, strict=False))
    before = next((place for place, same in enumerate(alike) if not same), len(first))
    after = first[before + 1 :]
    for number, text in enumerate(texts):
        if text != f"{first[:before]}{number}{after}":
            raise InputError(
                f"pods of one kind differ by their number only, but pod 0 would have {first!r} and pod {number} {text!r}; "
                "let shares be numbered (count and replicas, not shares)"
            )
    return f"{literal(first[:before])}$({variable}){literal(after)}"


def literal(text: str) -> str:
    """A text of an argument or a value in which Kubernetes is to replace nothing."""
    return text.replace("$", "$$")
