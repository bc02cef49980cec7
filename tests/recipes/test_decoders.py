import pytest
import torch

from halohop.recipes.decoders import DistMult, DotProduct, LinkDecoder, MLPDecoder
from halohop.recipes.ranking import rank_links

RELATION = torch.tensor([2, 0, 1, 0, 2, 1, 1])


def decoder_for(name: str) -> LinkDecoder:
    torch.manual_seed(5)
    return {"dot": DotProduct, "distmult": lambda: DistMult(3, 6), "mlp": lambda: MLPDecoder(6, 8)}[name]()


def vectors(seed: int, count: int = 7) -> torch.Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", ["dot", "distmult", "mlp"])
def test_an_edge_has_the_same_score_alone_and_among_all(name: str) -> None:
    """Catches ends that are mixed up, and a relation that is taken from the wrong row."""
    decoder, src, dst, others = decoder_for(name), vectors(1), vectors(2), vectors(3, 4)
    torch.testing.assert_close(decoder.tails(src, RELATION, dst).diagonal(), decoder(src, RELATION, dst))
    torch.testing.assert_close(decoder.heads(dst, RELATION, src).diagonal(), decoder(src, RELATION, dst))
    tails, heads = decoder.tails(src, RELATION, others), decoder.heads(dst, RELATION, others)
    for number, other in enumerate(others):
        torch.testing.assert_close(tails[:, number], decoder(src, RELATION, other.expand(7, -1)))
        torch.testing.assert_close(heads[:, number], decoder(other.expand(7, -1), RELATION, dst))
    assert decoder.tails(src[:0], RELATION[:0], others).shape == (0, 4)


def test_who_is_symmetric_and_who_looks_at_the_relation() -> None:
    src, dst, other = vectors(1), vectors(2), (RELATION + 1) % 3
    for name, symmetric, typed in (("dot", True, False), ("distmult", True, True), ("mlp", False, False)):
        decoder = decoder_for(name)
        score = decoder(src, RELATION, dst)
        assert torch.allclose(score, decoder(dst, RELATION, src)) == symmetric
        assert torch.allclose(score, decoder(src, other, dst)) != typed


@torch.no_grad()
def test_distmult_is_its_definition_and_does_not_begin_as_a_dot_product() -> None:
    """Weights of a mean other than zero make every node its own best neighbour."""
    torch.manual_seed(5)
    decoder = DistMult(50, 200)
    assert abs(float(decoder.weight.mean())) < 0.05
    assert abs(float(decoder.weight.std()) - 1) < 0.05
    src, dst = torch.randn(1, 200), torch.randn(1, 200)
    expected = sum(float(a * w * b) for a, w, b in zip(src[0], decoder.weight[7], dst[0], strict=True))
    assert float(decoder(src, torch.tensor([7]), dst)) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", ["distmult", "mlp"])
def test_every_weight_learns(name: str) -> None:
    decoder = decoder_for(name)
    decoder(vectors(1), RELATION, vectors(2)).sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in decoder.parameters())


def test_vectors_and_decoder_learn_relations_that_can_be_ranked() -> None:
    """Relation 0 pairs i with i + 10, relation 1 with i + 20; ranking then finds all of it, in both directions."""
    torch.manual_seed(0)
    src = torch.arange(10).repeat(2)
    relation, dst = torch.arange(2).repeat_interleave(10), torch.arange(10, 30)
    decoder, vector = DistMult(2, 16), torch.nn.Parameter(torch.randn(30, 16) / 4)
    optimizer = torch.optim.Adam([vector, *decoder.parameters()], lr=0.05)
    for _ in range(100):
        tails, heads = decoder.tails(vector[src], relation, vector), decoder.heads(vector[dst], relation, vector)
        loss = torch.nn.functional.cross_entropy(tails, dst) + torch.nn.functional.cross_entropy(heads, src)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    triples = (src, relation, dst)
    found = rank_links(
        lambda nodes, kind, candidates: decoder.tails(vector[nodes], kind, vector[candidates]),
        lambda nodes, kind, candidates: decoder.heads(vector[nodes], kind, vector[candidates]),
        *(triples, triples),
        num_nodes=30,
    )
    assert found.hits[1] == 1
