"""What a node model learns by and is judged by: nodes of one class each, or of several at once."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from halohop import World
from halohop.collectives import gather_rows, sum_over_ranks
from halohop.inference import check_finite
from halohop.recipes.ranking import auc

MAX_SCORES = 2**26
"""Of AUC, which needs all scores of a split at once: above so many (256 MiB in float32) it is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Loss and figures from logits ``[n, num_classes]`` and labels.

    Of one class per node, labels are int64 ``[n]``, -1 where there is none: cross-entropy, accuracy, macro-F1, and of two classes
    AUC. Of several, labels are floats 0, 1 or NaN (not known) ``[n, num_classes]``: binary cross-entropy, micro-F1, macro-F1, and
    the mean of the classes' AUC. Macro-F1 is the mean over the classes that occur, among labels or predictions.

    Args:
        num_classes: how many classes there are.
        several: whether a node may belong to several.
    """

    num_classes: int
    several: bool

    @property
    def figure(self) -> str:
        """The figure that decides which model is the best."""
        return "micro_f1" if self.several else "accuracy"

    def loss(self, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the losses of all known labels, and their number. Selecting by masks would make the host wait.

        Logits without a label are masked, so that a NaN among them reaches no gradient.
        """
        if self.several:
            known = ~y.isnan()
            logits, y = logits.masked_fill(~known, 0), y.masked_fill(~known, 0)
            losses = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
            return losses.masked_fill(~known, 0).sum(), known.sum()
        known = y >= 0
        logits = logits.masked_fill(~known[:, None], 0)
        return F.cross_entropy(logits, y.clamp(min=-1), ignore_index=-1, reduction="sum"), known.sum()

    def judge(
        self, found: Iterable[tuple[Tensor, Tensor]], device: torch.device, world: World
    ) -> tuple[dict[str, float], float, int]:
        """Figures, mean loss, and how many nodes had a label, over all ranks.

        Args:
            found: logits and labels of this rank's share, in any pieces.
            device, world: where ranks meet.

        Raises:
            NotFiniteError: the loss is NaN or infinite.
        """
        counts = torch.zeros(3, self.num_classes, dtype=torch.float64)
        losses = labels = nodes = 0.0
        scores = [torch.empty(0, 2, self._curves)]
        for logits, y in found:
            loss, known = self.loss(logits, y)
            losses, labels = losses + float(loss), labels + float(known)
            has_label = (~y.isnan()).any(dim=1) if self.several else y >= 0
            nodes += int(has_label.sum())
            logits, y = logits[has_label].float().cpu(), y[has_label].cpu()
            counts += self._counts(logits, y)
            if self._curves and sum(map(len, scores)) * self._curves <= MAX_SCORES:
                score = logits if self.several else logits[:, 1:] - logits[:, :1]
                scores.append(torch.stack([score, y.view(len(y), self._curves).float()], dim=1))
        losses, labels, nodes, *flat = sum_over_ranks([losses, labels, nodes, *counts.flatten().tolist()], device, world)
        if labels:
            check_finite("the loss of an evaluation", torch.tensor(losses / labels, dtype=torch.float64))
        figures = self._f1(torch.tensor(flat, dtype=torch.float64).view(3, -1), nodes)
        if self._curves and nodes * self._curves <= MAX_SCORES:
            figures["auc"] = _mean_auc(gather_rows(torch.cat(scores), device, world))
        return figures, losses / labels if labels else float("nan"), int(nodes)

    @property
    def _curves(self) -> int:
        """How many ROC curves there are: one per class where there may be several, one of two classes, else none."""
        return self.num_classes if self.several else int(self.num_classes == 2)

    def _counts(self, logits: Tensor, y: Tensor) -> Tensor:
        """Per class: how often it was predicted rightly, how often predicted, and how often it is the label."""
        if self.several:
            known, predicted, true = ~y.isnan(), logits > 0, y == 1
            return torch.stack([(known & mask).sum(dim=0) for mask in (predicted & true, predicted, true)]).double()
        predicted = logits.argmax(dim=1)
        columns = (predicted[predicted == y], predicted, y)
        return torch.stack([torch.bincount(column, minlength=self.num_classes) for column in columns]).double()

    def _f1(self, counts: Tensor, nodes: float) -> dict[str, float]:
        right, predicted, true = counts
        occurs = predicted + true > 0
        macro = float((2 * right[occurs] / (predicted + true)[occurs]).mean()) if occurs.any() else float("nan")
        if self.several:
            both = float((predicted + true).sum())
            return {"micro_f1": 2 * float(right.sum()) / both if both else float("nan"), "macro_f1": macro}
        return {"accuracy": float(right.sum()) / nodes if nodes else float("nan"), "macro_f1": macro}


def _mean_auc(scores: Tensor) -> float:
    """Mean over the classes that have both nodes that belong to them and nodes that do not; ``[n, (score, label), classes]``."""
    found = []
    for score, label in scores.permute(2, 1, 0):
        known = ~label.isnan()
        found.append(auc(score[known], label[known]))
    values = [value for value in found if value == value]
    return sum(values) / len(values) if values else float("nan")
