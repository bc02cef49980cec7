"""Options of commands from the fields of dataclasses: type, choices, default and help are the field's own.

To add an option, add a field with its line in the docstring's ``Args:``. If help cannot know what to call a value, add an entry
to `halohop.launch.options.spellings.TERMINAL`, too. The price: ``python -OO`` removes docstrings, and so the texts of help.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import reduce, wraps
from inspect import Parameter, Signature
from operator import or_
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer

from halohop.launch.options.docstrings import flag_of, help_of
from halohop.launch.options.parsing import check_with
from halohop.launch.options.spellings import SPELLINGS, TERMINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOption:
    """The option of a field: a parameter and its settings for typer, and the reader that converts its value to the field's."""

    parameter: Parameter
    info: Any
    read: Callable[[Any], Any]


def from_fields(
    kind: type,
    *,
    panels: Mapping[str, str | None],
    before: Mapping[str, Sequence[str]] = MappingProxyType({}),
    into: str = "settings",
    only_given: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a function with a parameter for values of fields. The command has an option for each field in its place.

    The function receives the values of the fields as a dictionary. If it has a parameter of a field's name, that counts.

    Args:
        kind: the dataclass, whose order the options have.
        panels: sections of the help, by the first field of each.
        before: other parameters of the function, by the field that they precede.
        into: the parameter.
        only_given: the function receives no defaults, because a file has other values.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = dict(inspect.signature(function).parameters)
        options: dict[str, FieldOption] = {}
        panel, ordered = None, []
        for field in (each.name for each in fields(kind)):
            panel = panels.get(field, panel)
            ordered += [own[name] for name in before.get(field, ())]
            if field not in own and TERMINAL.get(field, "") is not None:
                options[field] = field_option(kind, field, panel, only_given=only_given)
                ordered.append(options[field].parameter)
        placed = {each.name for each in ordered}
        parameters = []
        for name, parameter in own.items():
            parameters += ordered if name == into else [parameter] if name not in placed else []
        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]

        @wraps(function)
        def command(**given: Any) -> None:
            settings = {field: option.read(given.pop(option.parameter.name)) for field, option in options.items()}
            if only_given:
                settings = {field: value for field, value in settings.items() if value is not None}
            function(**{into: settings}, **given)

        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def field_option(kind: type[Any], field: str, panel: str | None = None, *, only_given: bool = False) -> FieldOption:
    """The option of a field of a dataclass, in a section of the help.

    A name that ends in ``_s``, for seconds, loses the end. A flag that is on by default can also be turned off. If the dataclass
    checks its values, it alone checks ranges. Otherwise typer checks minimums. With `only_given`, the value of an option that
    is not given is None.

    Example:
        >>> from halohop.recipes.config import TrainConfig
        >>> option = field_option(TrainConfig, "fanout")
        >>> option.parameter.default, option.read("5,-1")
        ('15,10', (5, -1))
    """
    found = kind.__dataclass_fields__[field]
    hint, default = found.type, found.default
    if get_origin(hint) in (Union, UnionType):
        hint = reduce(or_, (member for member in get_args(hint) if member is not NoneType))
    metavar, read = SPELLINGS.get(hint, (None, None))
    plain: Any = hint.__origin__ if get_origin(hint) is Annotated else hint
    if read:
        plain = list[str] if get_origin(hint) is Mapping else str
    flag = flag_of(field)
    shown = TERMINAL.get(field) or metavar
    if hint is bool:
        flag, shown = shown or (f"{flag}/--no-{flag[2:]}" if default else flag), None
    if isinstance(default, tuple):
        default = ",".join(map(str, default)) or None
    text, words = help_of(kind, field)
    shown_default: str | bool = words or True
    if only_given:
        shown_default = words or (str(default) if default not in (None, MISSING, False, "") else False)
        default = None
    info = typer.Option(
        flag,
        help=text,
        rich_help_panel=panel,
        metavar=shown,
        show_default=shown_default,
        callback=check_with(read) if read else None,
        min=None if read or hasattr(kind, "__post_init__") else _minimum(hint),
    )
    if default is MISSING:
        default = Parameter.empty
    parameter = Parameter(
        flag_of(field)[2:].replace("-", "_"),
        Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[plain | None if default is None else plain, info],
    )

    def value_of(given: Any) -> Any:
        if given in (None, []):
            return None if only_given else found.default
        return read(given) if read else given

    return FieldOption(parameter=parameter, info=info, read=value_of)


def _minimum(hint: Any) -> float | None:
    return next((each.ge for each in getattr(hint, "__metadata__", ())), None)
