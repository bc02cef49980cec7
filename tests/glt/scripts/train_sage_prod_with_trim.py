"""GraphSAGE on ogbn-products with layers that are trimmed to what their batch still needs, as in GLT's examples."""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import trim_to_layer

import halohop.glt as glt


class SAGE(torch.nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            [
                SAGEConv(in_channels, hidden_channels),
                SAGEConv(hidden_channels, hidden_channels),
                SAGEConv(hidden_channels, out_channels),
            ]
        )

    def forward(self, x, edge_index, num_sampled_nodes=None, num_sampled_edges=None):
        for i, conv in enumerate(self.convs):
            if num_sampled_nodes is not None:
                x, edge_index, _ = trim_to_layer(i, num_sampled_nodes, num_sampled_edges, x, edge_index)
            x = conv(x, edge_index)
            if i < len(self.convs) - 1:
                x = x.relu()
        return x


parser = argparse.ArgumentParser()
parser.add_argument("--root", required=True)
args = parser.parse_args()

glt.utils.seed_everything(7)
data = torch.load(f"{args.root}/products.pt")
glt_dataset = glt.data.Dataset()
glt_dataset.init_graph(edge_index=data["edge_index"], graph_mode="CPU", directed=False)
glt_dataset.init_node_features(node_feature_data=data["x"], with_gpu=False)
glt_dataset.init_node_labels(node_label_data=data["y"])

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = glt.loader.NeighborLoader(
    glt_dataset, [10, 5, 5], data["train_idx"], batch_size=64, shuffle=True, drop_last=True, device=device, seed=3
)
model = SAGE(data["x"].size(1), 32, int(data["y"].max()) + 1).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(1, 9):
    total_loss = total_correct = total = 0
    for batch in loader:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)[: batch.batch_size]
        whole = model(batch.x, batch.edge_index)[: batch.batch_size]
        assert torch.allclose(out, whole, atol=1e-5)  # trimming leaves nothing out that a seed needs
        y = batch.y[: batch.batch_size].view(-1)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        total_loss += loss.item()
        total_correct += int((out.argmax(dim=-1) == y).sum())
        total += batch.batch_size
    print(f"Epoch {epoch:02d}, Loss: {total_loss / len(loader):.4f}")
print(f"Train: {total_correct / total:.4f}")
