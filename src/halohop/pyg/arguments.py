"""The loaders' arguments, each spelled once: its name, type, default and meaning. Loaders say in which order PyG has them."""

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any, TypedDict, TypeVar, cast, get_args, get_type_hints

from halohop.errors import InputError
from halohop.flags import checks_flags, flag
from halohop.loading.base import BaseLoader
from halohop.loading.loader import BatchLoader
from halohop.loading.options import LoaderArguments
from halohop.loading.undivided import NOT_GIVEN
from halohop.pyg.columns import Names
from halohop.pyg.inputs import plain
from halohop.sampling.caps import CapsFrom, Padding
from halohop.store.draw import Expand, Rules
from halohop.typing import EdgeDir

Kind = TypeVar("Kind")
Init = TypeVar("Init", bound=Callable[..., None])


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What an argument is if it is not given, and what it does."""

    default: Any = None
    about: str


class DrawArguments(TypedDict, total=False):
    """How neighbours are drawn; `rules_of` makes rules of them."""

    replace: Annotated[bool, Argument(default=False, about="draw with replacement.")]
    subgraph_type: Annotated[
        Any,
        Argument(
            default="directional",
            about="""which edges a batch has, as a word or PyG's `SubgraphType`; its nodes are the same in any case.
            "directional": the edges that were drawn. "induced" (or `directed=False`): all edges of the graph among the batch's
            nodes, whatever their weights, ordered by destination, then as the graph stores them; not with times.
            "bidirectional": the drawn edges and their flips, each pair of ends once, ordered by destination, then by source.
            Flips of a relation ("a", "to", "b") belong to ("b", "rev_to", "a"), and the other way round; those of a relation
            between nodes of one type without such a partner belong to itself. A flip has the `e_id` and the features of its
            original. Where that is an edge of the partner, `e_flipped` says so. Batches of "induced" and "bidirectional" have
            no `num_sampled_edges`, and layers cannot be trimmed.""",
        ),
    ]
    disjoint: Annotated[
        bool, Argument(default=False, about="every seed gets a subgraph of its own; `batch` says which one a node belongs to.")
    ]
    temporal_strategy: Annotated[
        str, Argument(default="uniform", about='"uniform", or "last": the most recent neighbours instead of random ones.')
    ]
    time_attr: Annotated[
        str | None,
        Argument(
            about="""the attribute of edges or nodes that holds times: no edge or neighbour later than a seed is sampled around
            it. Implies `disjoint`. A node's edges come in the order in which the graph stores them; PyG lists them by time."""
        ),
    ]
    time_window: Annotated[
        int | float | None,
        Argument(about="no edge or neighbour earlier than a seed by more than this is sampled around it; in `time_attr`'s unit."),
    ]
    weight_attr: Annotated[
        str | None,
        Argument(about="the attribute of edges that holds weights to draw by, at least 0; 0 is never drawn."),
    ]
    directed: Annotated[bool, Argument(default=True, about='PyG\'s older spelling: False is the subgraph type "induced".')]
    expand: Annotated[
        Expand,
        Argument(
            default="new",
            about="""\"new" expands the nodes that the previous hop found (PyG); "all" draws again for all nodes so far (DGL).""",
        ),
    ]
    method: Annotated[
        str,
        Argument(
            default="neighbor",
            about="""\"neighbor" (Hamilton et al. 2017), or "labor" (LABOR-0, Balin & Catalyurek 2023): as many neighbours of each
            node, each as likely as before, but nodes of a hop choose alike, so that a batch has fewer different nodes.""",
        ),
    ]
    layer_dependency: Annotated[bool, Argument(default=False, about='with "labor" the hops choose alike, too.')]
    toward_seeds: Annotated[
        bool,
        Argument(
            default=False,
            about="""edges of batches lead from neighbours to the nodes that they were drawn for, as messages do. With
            edge_dir="out" these are the edges of the graph turned around: `edge_index` has their destinations first, under the
            name of their relation. Not with `pad`, `transform_sampler_output` or "bidirectional".""",
        ),
    ]


class BatchArguments(TypedDict, total=False):
    """What batches of sampled subgraphs hold, and what they are made from."""

    transform: Annotated[Callable[[Any], Any] | None, Argument(about="applied to every batch, by the workers that make them.")]
    transform_sampler_output: Annotated[
        Callable[[Any], Any] | None, Argument(about="applied to PyG's `SamplerOutput` before the rows are collected.")
    ]
    is_sorted: Annotated[bool, Argument(default=False, about="accepted for PyG's sake; the batches do not depend on it.")]
    filter_per_worker: Annotated[bool | None, Argument(about="accepted for PyG's sake; the batches do not depend on it.")]
    custom_cls: Annotated[type | None, Argument(about="the class of the batches, of data that has none of its own, as in PyG.")]
    node_columns: Annotated[
        Names,
        Argument(
            about="""the columns of nodes that batches get: a list of names, or a dict with a list per node type, where types that
            are not named get none; [] is none at all, None all. Others are neither read nor sent. Ids, and what is about the
            seeds or made by the sampler, are no columns. A table (`halohop.DistTensor`) that is named gives its rows, too, as
            they are when the batch is made; None stands for no table."""
        ),
    ]
    edge_columns: Annotated[Names, Argument(about="the same of edges; a dict has a list per relation.")]
    ids: Annotated[
        Sequence[str] | None,
        Argument(
            about="""the user's ids that batches get: a list of "n_id" and "e_id"; [] is none, None both. Others are neither read
            nor sent, but for ids of edges by which columns of PyG's objects are found: see `edge_columns`."""
        ),
    ]
    gids: Annotated[
        bool,
        Argument(
            default=False,
            about="""batches have the gids of their nodes (`n_gid`) and edges (`e_gid`), int64, by which `halohop.DistEmbedding`
            finds rows without looking ids up (`embedding(gid=batch.n_gid)`); -1 in the empty places of `pad`.""",
        ),
    ]
    edge_dir: Annotated[
        EdgeDir | None,
        Argument(
            about="""which neighbours are drawn: "in" (those with an edge to a node, as in PyG) or "out" (those with an edge from
            it). A graph of halohop's was made for one of them, which None takes; of PyG's graphs None takes "in". Edges keep
            their direction in batches."""
        ),
    ]
    seed: Annotated[int | None, Argument(about="of draws and shuffle; None takes it from `generator`, or 0.")]
    pad: Annotated[
        CapsFrom | Padding | None,
        Argument(
            about="""fixed shapes, for torch.compile and CUDA graphs: "measured", "bound" or a `halohop.records.Padding`. Empty
            places have `n_id` and `e_id` -1. `node_mask`, `edge_mask` and `seed_mask` mark them. `batch_size` counts places."""
        ),
    ]
    generator: Any
    sampler: Any


class SampledArguments(BatchArguments, LoaderArguments, total=False):
    """What every loader of sampled subgraphs takes."""


class NeighborArguments(DrawArguments, SampledArguments, total=False):
    """What loaders of drawn neighbourhoods take."""

    neighbor_sampler: Annotated[Any, Argument(about="for PyG's own loaders; refused here.")]


def rules_of(given: Mapping[str, Any]) -> Rules:
    """The rules that `DrawArguments` name. A subgraph type may be PyG's enum, a word, or the older `directed=False`; times imply
    disjoint subgraphs.

    Raises:
        InputError: an unknown strategy, method or type, or options that exclude each other.
    """
    options = chosen(DrawArguments, given)
    strategy, method = options["temporal_strategy"], options["method"]
    if strategy not in ("uniform", "last"):
        raise InputError(f"temporal_strategy={strategy!r} is neither 'uniform' nor 'last'")
    if method not in ("neighbor", "labor"):
        raise InputError(f"method={method!r} is neither 'neighbor' nor 'labor'")
    subgraph = options["subgraph_type"]
    return Rules(
        replace=options["replace"],
        expand=options["expand"],
        disjoint=options["disjoint"] or options["time_attr"] is not None,
        weight=options["weight_attr"],
        time=options["time_attr"],
        time_window=plain(options["time_window"]),
        last=strategy == "last",
        labor=method == "labor",
        layer_dependency=options["layer_dependency"],
        toward_seeds=options["toward_seeds"],
        subgraph=getattr(subgraph, "value", subgraph) if options["directed"] else "induced",
    )


def chosen(kind: type[Kind], given: Mapping[str, Any]) -> Kind:
    """The arguments of one kind, such as `DrawArguments`, among those given; the others of the kind by default.

    Raises:
        InputError: the value of an argument of type bool is not a bool.

    Example:
        >>> chosen(DrawArguments, {"replace": True, "batch_size": 4})["replace"], chosen(DrawArguments, {})["method"]
        (True, 'neighbor')
    """
    spelled = _spelled(cast(Hashable, kind)).items()
    return cast(Kind, {name: flag(given.get(name, argument.default), name, known) for name, (known, argument) in spelled})


def without(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments given that are not of this kind."""
    return {name: value for name, value in given.items() if name not in kind.__annotations__}


def as_pyg(*names: str) -> Callable[[Init], Init]:
    """Gives a loader's `__init__` the signature that PyG's loader has, and writes out its keywords for `help`.

    Args:
        names: keywords that may be given by position, too: after the positional ones that are spelled there, in this order.
    """

    def decorate(init: Init) -> Init:
        signature, others, about = _written_out(inspect.signature(init), names)
        own = checks_flags(init)

        @functools.wraps(init)
        def by_name(*args: Any, **kwargs: Any) -> None:
            given = signature.bind(*args, **kwargs).arguments
            more = given.pop("kwargs", {})
            own(**given, **more)

        named = [each for each in signature.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        by_name.__signature__ = signature.replace(parameters=[*named, *others])  # type: ignore[attr-defined]
        by_name.__doc__ = about
        return cast(Init, by_name)

    return decorate


def _written_out(written: Signature, names: tuple[str, ...]) -> tuple[Signature, list[Parameter], str]:
    """The signature with the keywords that have an `Argument`, of those that `**kwargs: Unpack[...]` stands for; the others; and
    what the former do."""
    *own, rest = (parameter for parameter in written.parameters.values() if parameter.kind is not Parameter.VAR_POSITIONAL)
    (kind,) = get_args(rest.annotation)
    spelled = _spelled(kind)
    defaults = {
        parameter.name: parameter.default
        for kind_of_loader in (BaseLoader, BatchLoader)
        for parameter in inspect.signature(kind_of_loader).parameters.values()
        if parameter.kind is Parameter.KEYWORD_ONLY and parameter.default is not NOT_GIVEN
    }
    others = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=hint, default=defaults.get(name))
        for name, hint in get_type_hints(kind).items()
        if name not in spelled and name not in written.parameters
    ]
    by_name = {parameter.name: parameter for parameter in own}
    for name, (annotation, argument) in spelled.items():
        by_name[name] = Parameter(name, Parameter.KEYWORD_ONLY, default=argument.default, annotation=annotation)
    positional = [parameter for parameter in own if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD]
    positional += [by_name.pop(name).replace(kind=Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    keywords = [parameter for parameter in by_name.values() if parameter.kind is Parameter.KEYWORD_ONLY]
    parameters = [*positional, *keywords, *([rest.replace(annotation=Any)] if others else [])]
    about = "\n".join(_entry(name, argument.about) for name, (_, argument) in spelled.items())
    text = f"Makes the loader or sampler; the other arguments are explained at the class.\n\nArgs:\n{about}\n"
    return written.replace(parameters=parameters), others, text


def _entry(name: str, about: str) -> str:
    first, *more = about.splitlines()
    return "\n".join([f"    {name}: {first}", *(f"        {line.strip()}" for line in more)])


@functools.cache
def _spelled(kind: Hashable) -> dict[str, tuple[Any, Argument]]:
    """The type and the `Argument` of all arguments of a kind that have one."""
    hints = {name: get_args(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}
    return {name: (hint[0], hint[1]) for name, hint in hints.items() if len(hint) == 2 and isinstance(hint[1], Argument)}
