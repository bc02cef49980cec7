"""SEAL (Zhang & Chen 2018): links predicted by the subgraphs around them, from a sampler; as in GLT's examples."""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, global_add_pool
from torch_geometric.utils import k_hop_subgraph, to_dense_adj

import halohop.glt as glt

parser = argparse.ArgumentParser()
parser.add_argument("--root", required=True)
args = parser.parse_args()

glt.utils.seed_everything(1)
data = torch.load(f"{args.root}/cora.pt")
train_edges, num_nodes = data["edge_index"], data["num_nodes"]
dataset = glt.data.Dataset()
dataset.init_graph(edge_index=train_edges, graph_mode="CPU", directed=False)
sampler = glt.sampler.NeighborSampler(dataset.graph, num_neighbors=[-1], device=torch.device("cpu"), with_edge=True)
negatives = glt.sampler.RandomNegativeSampler(dataset.graph, "CPU")


def drnl(edge_index, src, dst, size):
    """Distances to both ends, without the other one, as in the paper; 0 where there is no way."""

    def distances(start, without):
        adj = to_dense_adj(edge_index, max_num_nodes=size)[0]
        adj[without], adj[:, without] = 0, 0
        dist, reached = torch.full((size,), 99), torch.zeros(size)
        reached[start], dist[start] = 1, 0
        for step in (1, 2, 3):
            new = (adj @ reached > 0) & (dist == 99)
            dist[new], reached[new] = step, 1
        return dist

    d_src, d_dst = distances(src, dst), distances(dst, src)
    z = (1 + torch.minimum(d_src, d_dst) + (d_src + d_dst) // 2 * ((d_src + d_dst) // 2 + (d_src + d_dst) % 2 - 1)).clamp(max=20)
    z[(d_src == 99) | (d_dst == 99)] = 0
    z[src], z[dst] = 1, 1
    return z


def enclosing_subgraph(src, dst, label):
    out = sampler.subgraph(glt.sampler.NodeSamplerInput(torch.tensor([src, dst])))
    expected = k_hop_subgraph([src, dst], 1, train_edges, num_nodes=num_nodes)[0]
    assert sorted(out.node.tolist()) == expected.tolist()
    a, b = out.metadata.tolist()
    edge_index = torch.stack([out.row, out.col])
    keep = ((edge_index[0] != a) | (edge_index[1] != b)) & ((edge_index[0] != b) | (edge_index[1] != a))  # not the link itself
    z = drnl(edge_index[:, keep], a, b, len(out.node))
    return Data(x=F.one_hot(z, 21).float(), edge_index=edge_index[:, keep], y=float(label))


def examples(edges):
    pairs = negatives.sample(edges.size(1))
    found = [enclosing_subgraph(*pair, 1) for pair in edges.t().tolist()]
    return Batch.from_data_list(found + [enclosing_subgraph(*pair, 0) for pair in pairs.t().tolist()])


class GNN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.out = GCNConv(21, 32), GCNConv(32, 32), torch.nn.Linear(32, 1)

    def forward(self, batch):
        x = self.conv1(batch.x, batch.edge_index).relu()
        x = self.conv2(x, batch.edge_index).relu()
        return self.out(global_add_pool(x, batch.batch)).view(-1)


train, test = examples(train_edges[:, ::8][:, :70]), examples(data["test_edges"][:, :40])
model = GNN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(1, 41):
    optimizer.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(train), train.y)
    loss.backward()
    optimizer.step()
    print(f"Epoch {epoch:02d}, Loss: {loss.item():.4f}")
scores, labels = model(test).detach(), test.y.bool()
auc = (scores[labels][:, None] > scores[~labels][None]).float().mean()
print(f"Test: {float(auc):.4f}")
