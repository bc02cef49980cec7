"""HGT (Hu et al. 2020) on a graph of papers, authors, institutions and fields like OGB-MAG, as in GLT's examples."""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import HGTConv, Linear

import halohop.glt as glt

parser = argparse.ArgumentParser()
parser.add_argument("--root", required=True)
args = parser.parse_args()

glt.utils.seed_everything(12)
data = torch.load(f"{args.root}/mag.pt")
edge_dict = {tuple(name.split("__")): edge_index for name, edge_index in data["edges"].items()}

glt_dataset = glt.data.Dataset()
glt_dataset.init_graph(edge_index=edge_dict, graph_mode="ZERO_COPY")
glt_dataset.init_node_features(node_feature_data=data["x"], split_ratio=0.2, device_group_list=[glt.data.DeviceGroup(0, [0])])
glt_dataset.init_node_labels(node_label_data={"paper": data["y"]})

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
loader_args = {"num_neighbors": [8] * 2, "batch_size": 64, "device": device}
train_loader = glt.loader.NeighborLoader(glt_dataset, input_nodes=("paper", data["train_idx"]), shuffle=True, **loader_args)
val_loader = glt.loader.NeighborLoader(glt_dataset, input_nodes=("paper", data["test_idx"]), **loader_args)

node_types, edge_types = glt_dataset.get_node_types(), glt_dataset.get_edge_types()


class HGT(torch.nn.Module):
    def __init__(self, hidden_channels, out_channels, num_heads, num_layers):
        super().__init__()
        self.lin_dict = torch.nn.ModuleDict({node_type: Linear(-1, hidden_channels) for node_type in node_types})
        metadata = node_types, edge_types  # a graph that goes both ways has the reverses of its relations, too
        self.convs = torch.nn.ModuleList(
            HGTConv(hidden_channels, hidden_channels, metadata, num_heads) for _ in range(num_layers)
        )
        self.lin = Linear(hidden_channels, out_channels)

    def forward(self, x_dict, edge_index_dict):
        x_dict = {node_type: self.lin_dict[node_type](x).relu_() for node_type, x in x_dict.items()}
        for conv in self.convs:
            x_dict = conv(x_dict, edge_index_dict)
        return self.lin(x_dict["paper"])


model = HGT(hidden_channels=32, out_channels=int(data["y"].max()) + 1, num_heads=2, num_layers=2).to(device)


def forward(batch):
    batch_size = batch["paper"].batch_size
    assert batch.num_nodes >= batch_size
    out = model(batch.x_dict, batch.edge_index_dict)[:batch_size]
    return out, batch["paper"].y[:batch_size].to(torch.long)


with torch.no_grad():  # Initialize lazy modules.
    forward(next(iter(train_loader)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
for epoch in range(1, 7):
    model.train()
    total_examples = total_loss = 0
    for batch in train_loader:
        optimizer.zero_grad()
        out, y = forward(batch)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        total_examples += len(y)
        total_loss += loss.item() * len(y)
    print(f"Epoch {epoch:02d}, Loss: {total_loss / total_examples:.4f}")

model.eval()
with torch.no_grad():
    correct = sum(int((out.argmax(-1) == y).sum()) for out, y in map(forward, val_loader))
print(f"Test: {correct / len(data['test_idx']):.4f}")
