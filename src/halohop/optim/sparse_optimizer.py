"""What the optimisers of tables have in common: they are torch's to the user, and ask the tables' owners to do the work."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypedDict

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.optim import Optimizer

from halohop.errors import InputError
from halohop.optim.groups import check_embeddings, check_names, check_numbers, learning_rate, number
from halohop.optim.joining import LeaveHook, join_with_models
from halohop.optim.rank import Rank
from halohop.optim.shares import share_of
from halohop.process_group import check_number, world_of
from halohop.tables.change_messages import Share
from halohop.tables.rule_spec import Duplicates, Ranks, RuleSpec
from halohop.tensors.dist_embedding import DistEmbedding
from halohop.world import World


class StepArguments(TypedDict, total=False):
    """What all optimisers of tables take besides their rule's numbers.

    Args:
        ranks: gradients of several ranks are averaged ("mean", as DDP averages; a rank that has left counts as zeros) or added up
            ("sum").
        duplicates: gradients of one row within a step are added up ("sum", as torch's), or averaged over its lookups ("mean", as
            DGL's).
        maximize: goes along the gradient.
        name: of the optimiser at the owners; the same on all ranks. None makes one of its class and the tables.
        world: the ranks that share each step; None: those of the process group, or of the launcher.
        timeout: seconds that a step waits for the other ranks.
    """

    ranks: Ranks
    duplicates: Duplicates
    maximize: bool
    name: str | None
    world: World | None
    timeout: float


class SparseOptimizer(Optimizer, Joinable):
    """A `torch.optim.Optimizer` whose parameters are tables: `DistEmbedding`s, in groups with a learning rate each.

    All ranks make each step together; one that ends its loop earlier leaves: by the model's `join`, torch's `Join`, or `leave`.

    Args:
        embeddings: DistEmbeddings of one graph, or dicts with a list of them, "params", and what differs from the defaults.
        defaults: of the groups.
        given: `StepArguments`.

    Attributes:
        steps: by table, how many it has had.
        grad_norm: of the last step that was clipped, before it was; None before there was one.

    Raises:
        InputError: what is no DistEmbedding, tables of several graphs, or numbers that cannot work.
        ClusterError: a table has another optimiser.
    """

    def __init__(self, embeddings: Iterable[Any], defaults: dict[str, Any], given: StepArguments) -> None:
        check_names(given, {*StepArguments.__annotations__}, type(self).__name__)
        self._ranks: Ranks = given.get("ranks", "mean")
        self._duplicates: Duplicates = given.get("duplicates", "sum")
        self._rank: Rank | None = None
        self._max_norm: float | None = None
        self._rules: dict[str, RuleSpec] = {}
        self.grad_norm: float | None = None
        self.steps: dict[str, int] = {}
        Joinable.__init__(self)
        defaults["maximize"] = given.get("maximize", False)
        if isinstance(embeddings, torch.nn.Module):
            raise InputError(f"embeddings={type(embeddings).__name__}(...) is one; give a list of them: [embedding]")
        embeddings = list(embeddings)
        if not embeddings:
            raise InputError("embeddings=[] has no table to train; give a list of DistEmbeddings, not parameters: [embedding]")
        Optimizer.__init__(self, embeddings, defaults)
        world = world_of(given.get("world"))
        check_number(world)
        name = given.get("name") or f"{type(self).__name__}({','.join(self._rules)})"
        timeout = number("timeout", given.get("timeout", 60.0))
        if not timeout > 0:
            raise InputError(f"timeout={timeout} is to be a number of seconds above 0")
        self._rank = Rank(self._embeddings[0].graph.tables, name, world, seconds=timeout)
        self._begin()
        if world.size > 1:
            join_with_models(self, self._rank)

    @abstractmethod
    def _rule(self, group: Mapping[str, Any]) -> RuleSpec:
        """What the owners of a group's tables do, but for what all rules have: ranks, duplicates, and the direction."""

    @property
    def _embeddings(self) -> list[DistEmbedding]:
        return [embedding for group in self.param_groups for embedding in group["params"]]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds tables, with numbers of their own.

        Args:
            param_group: "params" is a DistEmbedding, or a list of them.
        """
        try:
            given = param_group["params"]
        except (KeyError, TypeError) as error:
            raise InputError(f"group {param_group!r} has no list of DistEmbeddings; give a dict with 'params'") from error
        embeddings: list[DistEmbedding] = [given] if isinstance(given, DistEmbedding) else list(given)
        check_embeddings([*self._embeddings, *embeddings])
        group = {**self.defaults, **param_group, "params": embeddings}
        rules = {embedding.name: self._checked_rule(group) for embedding in embeddings}
        self.param_groups.append(group)
        self._rules |= rules
        if self._rank is not None:
            self._begin()

    def _checked_rule(self, group: Mapping[str, Any]) -> RuleSpec:
        check_numbers(group)
        return replace(self._rule(group), ranks=self._ranks, duplicates=self._duplicates, maximize=group["maximize"])

    def _begin(self) -> None:
        assert self._rank is not None
        self.steps = self._rank.begin(self._rules)
        for embedding in self._embeddings:
            embedding.steps = self.steps[embedding.name]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients that backward has brought since the last step."""
        for embedding in self._embeddings:
            embedding.gradients.drop()

    def clip_grad_norm(self, max_norm: float) -> None:
        """Scales the gradients of the next step so that their norm is at most `max_norm`.

        It is the 2-norm of all tables' gradients together, over all owners, after those of equal rows and of all ranks were put
        together; `step` finds it, and `grad_norm` is it afterwards. All ranks have to call this, with the same number.
        """
        largest = number("max_norm", max_norm)
        if not largest > 0 or not math.isfinite(largest):
            raise InputError(f"max_norm={max_norm} is to be a number above 0")
        self._max_norm = largest

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Has the owners change the rows by the gradients of all ranks, and uses these up.

        Where it fails nothing has changed, and the gradients are still there: call it again, or `zero_grad`.

        Args:
            closure: computes the loss anew, with its gradients, and returns it.

        Raises:
            InputError: nothing was looked up since the last step, a gradient is not finite, or a group's numbers were changed in
                a way that the owners do not know of.
            ClusterError, TransportError: another rank's part did not come in time or was refused, or an owner is lost.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        assert self._rank is not None
        Join.notify_join_context(self)
        with self._rank.heard():
            shares = self._shares()
        stepped = self._rank.step(shares, max_norm=self._max_norm)
        if stepped.norm is not None:
            self.grad_norm, self._max_norm = stepped.norm, None
        self.steps |= stepped.steps
        for embedding in self._embeddings:
            embedding.steps = self.steps[embedding.name]
            embedding.gradients.stepped()
        return loss

    def _shares(self) -> tuple[Share, ...]:
        if not any(embedding.gradients.looked_up or embedding.gradients.there for embedding in self._embeddings):
            raise InputError(
                f"step() of {type(self).__name__}, but no row of {', '.join(map(repr, self._rules))} was looked up since the "
                "last one; call the embedding and backward() first; a rank that has ended its loop calls leave()"
            )
        return tuple(
            share_of(embedding, learning_rate(group), self._duplicates)
            for group in self._unchanged_groups()
            for embedding in group["params"]
            if embedding.gradients.there
        )

    def _unchanged_groups(self) -> list[dict[str, Any]]:
        """The groups, if the owners know their rules: those of the first step stay."""
        for group in self.param_groups:
            rule = self._checked_rule(group)
            for embedding in group["params"]:
                known = self._rules[embedding.name]
                if rule != known:
                    raise InputError(
                        f"the rule of table {embedding.name!r} has become {rule}, but its owners have {known}; only lr may "
                        "change (a schedule leaves betas alone with cycle_momentum=False)"
                    )
        return self.param_groups

    def leave(self, timeout: float = 600.0) -> None:
        """This rank has ended its loop, an epoch for instance: the others' steps do not wait for it any more, and it counts as
        zeros in their means. Every rank calls it where loops may differ in length, and it returns when all have: then rows are
        those after the last step of the last rank. The `join` of a model in DDP does it by itself, and so does torch's `Join`.

        Args:
            timeout: seconds that the others may need to end.

        Raises:
            ClusterError, TransportError: a rank did not end in time, or an owner is lost.
        """
        assert self._rank is not None
        self._rank.leave()
        self._meet(timeout)

    def _meet(self, timeout: float) -> None:
        assert self._rank is not None
        self._rank.meet(seconds=timeout)
        self._begin()  # the others may have made more steps

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """For torch's `Join`: ``with Join([model, optimizer]):``, the model first. The `join` of a model in DDP calls it, too.

        Raises:
            InputError: the mean is to be over the ranks that are left.
        """
        if not kwargs.get("divide_by_initial_world_size", True) and self._ranks == "mean":
            raise InputError(
                "divide_by_initial_world_size=False takes the mean over the ranks that are left, but tables take it over all; "
                "leave it out"
            )
        assert self._rank is not None
        return LeaveHook(self._rank, lambda: self._meet(60.0))

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """What torch's GradScaler asks before it steps an optimiser.

        Raises:
            InputError: always; it would divide gradients that lie at the ranks, and skip steps of one rank alone.
        """
        raise InputError(
            "torch.amp.GradScaler cannot step an optimiser of tables; step it by itself (sparse.step()), and compute in "
            "bfloat16, which needs no scaling"
        )

    @property
    def join_device(self) -> torch.device:
        """Where `Join` counts ranks, if this is its first: a device that the process group works on."""
        return torch.device("cuda") if dist.get_backend() == "nccl" else torch.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The one of all ranks."""
        return dist.distributed_c10d._get_default_group()

    def state_dict(self) -> dict[str, Any]:
        """The numbers of the groups, and the steps of each table. The tables and their state lie at the owners
        (`graph.tables.save`), which are asked for the steps."""
        self._begin()
        return {**super().state_dict(), "steps": dict(self.steps)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes the numbers of the groups back, once the tables are as they were (`graph.tables.load`).

        Raises:
            InputError: tables of other steps, other numbers than lr, or the state of an optimiser of torch's.
        """
        if "steps" not in state_dict or state_dict["state"]:
            raise InputError(
                f"this is not the state of a {type(self).__name__}: that of tables lies at their owners (graph.tables.load); "
                "give what its state_dict() returned"
            )
        self._begin()
        for name, steps in state_dict["steps"].items():
            if self.steps.get(name) != steps:
                raise InputError(
                    f"the state is of step {steps} of table {name!r}, which has had {self.steps.get(name, 'no')} steps; "
                    "load the tables of the same checkpoint first (graph.tables.load)"
                )
        before = [dict(group) for group in self.param_groups]
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "steps"})
        try:
            self._unchanged_groups()
        except InputError:
            self.param_groups = before
            raise
