"""Embeddings by GraphSAGE without labels: edges against pairs that are none, as in GLT's example on PPI."""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE

import halohop.glt as glt
from halohop.glt.sampler import NegativeSampling

parser = argparse.ArgumentParser()
parser.add_argument("--root", required=True)
args = parser.parse_args()

glt.utils.seed_everything(3)
data = torch.load(f"{args.root}/products.pt")
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

dataset = glt.data.Dataset()
dataset.init_graph(data["edge_index"], graph_mode="CPU")
dataset.init_node_features(data["x"], with_gpu=False)
dataset.init_node_labels(data["y"])

loader = glt.loader.LinkNeighborLoader(
    dataset,
    num_neighbors=[10, 10],
    edge_label_index=data["edge_index"],
    neg_sampling=NegativeSampling("binary"),
    batch_size=512,
    shuffle=True,
    device=device,
)
model = GraphSAGE(data["x"].size(1), hidden_channels=32, num_layers=2, out_channels=32).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

edges = set(zip(*data["edge_index"].tolist(), strict=True))
for epoch in range(1, 7):
    model.train()
    total_loss = total_examples = 0
    for batch in loader:
        optimizer.zero_grad()
        h = model(batch.x, batch.edge_index)
        h_src, h_dst = h[batch.edge_label_index[0]], h[batch.edge_label_index[1]]
        link_pred = (h_src * h_dst).sum(dim=-1)
        loss = F.binary_cross_entropy_with_logits(link_pred, batch.edge_label)
        loss.backward()
        optimizer.step()
        total_loss += loss.item() * link_pred.numel()
        total_examples += link_pred.numel()
        pairs = zip(*batch.node[batch.edge_label_index].flip(0).tolist(), strict=True)  # GLT turns labelled edges around, too
        assert [pair in edges for pair in pairs] == batch.edge_label.bool().tolist()
    print(f"Epoch {epoch:02d}, Loss: {total_loss / total_examples:.4f}")

model.eval()
with torch.no_grad():  # how well a linear layer tells the classes by the embeddings
    h = model(data["x"].to(device), data["edge_index"].flip(0).to(device))
classifier = torch.nn.Linear(32, int(data["y"].max()) + 1).to(device)
optimizer = torch.optim.Adam(classifier.parameters(), lr=0.05)
y, train_idx, test_idx = data["y"].to(device), data["train_idx"], data["test_idx"]
for _ in range(60):
    optimizer.zero_grad()
    F.cross_entropy(classifier(h[train_idx]), y[train_idx]).backward()
    optimizer.step()
print(f"Test: {float((classifier(h[test_idx]).argmax(-1) == y[test_idx]).float().mean()):.4f}")
