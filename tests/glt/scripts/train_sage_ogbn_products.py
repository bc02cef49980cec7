"""GraphSAGE on ogbn-products by PyG's first format of batches, as in GLT's examples, on one machine."""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

import halohop.glt as glt


class SAGE(torch.nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels, num_layers):
        super().__init__()
        self.num_layers = num_layers
        self.convs = torch.nn.ModuleList()
        self.convs.append(SAGEConv(in_channels, hidden_channels))
        for _ in range(num_layers - 2):
            self.convs.append(SAGEConv(hidden_channels, hidden_channels))
        self.convs.append(SAGEConv(hidden_channels, out_channels))

    def forward(self, x, adjs):
        for i, (edge_index, _, size) in enumerate(adjs):
            x_target = x[: size[1]]  # Target nodes are always placed first.
            x = self.convs[i]((x, x_target), edge_index)
            if i != self.num_layers - 1:
                x = F.relu(x)
                x = F.dropout(x, p=0.2, training=self.training)
        return x.log_softmax(dim=-1)


parser = argparse.ArgumentParser()
parser.add_argument("--root", required=True)
parser.add_argument("--epochs", type=int, default=8)
args = parser.parse_args()

glt.utils.seed_everything(7)
data = torch.load(f"{args.root}/products.pt")
train_idx, test_idx = data["train_idx"], data["test_idx"]

glt_dataset = glt.data.Dataset()
glt_dataset.init_graph(edge_index=data["edge_index"], graph_mode="ZERO_COPY", directed=False)
glt_dataset.init_node_features(
    node_feature_data=data["x"],
    sort_func=glt.data.sort_by_in_degree,
    split_ratio=0.2,
    device_group_list=[glt.data.DeviceGroup(0, [0])],
)
glt_dataset.init_node_labels(node_label_data=data["y"])

device = torch.device(0 if torch.cuda.is_available() else "cpu")
train_loader = glt.loader.NeighborLoader(
    glt_dataset, [15, 10, 5], train_idx, batch_size=64, shuffle=True, drop_last=True, device=device, as_pyg_v1=True
)
test_loader = glt.loader.NeighborLoader(glt_dataset, [15, 10, 5], test_idx, batch_size=256, device=device, as_pyg_v1=True)
model = SAGE(data["x"].size(1), 32, int(data["y"].max()) + 1, num_layers=3).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

x, y = glt_dataset.node_features, data["y"].to(device)
for epoch in range(1, args.epochs + 1):
    model.train()
    total_loss = 0.0
    for batch_size, n_id, adjs in train_loader:
        optimizer.zero_grad()
        out = model(x[n_id].to(device), [adj.to(device) for adj in adjs])
        loss = F.nll_loss(out, y[n_id[:batch_size]])
        loss.backward()
        optimizer.step()
        total_loss += loss.item()
    print(f"Epoch {epoch:02d}, Loss: {total_loss / len(train_loader):.4f}")

model.eval()
correct = 0
with torch.no_grad():
    for batch_size, n_id, adjs in test_loader:
        out = model(x[n_id].to(device), [adj.to(device) for adj in adjs])
        correct += int((out.argmax(dim=-1) == y[n_id[:batch_size]]).sum())
print(f"Test: {correct / len(test_idx):.4f}")
