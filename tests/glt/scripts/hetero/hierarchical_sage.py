"""GraphSAGE over several types, each layer on what it still needs, as in GLT's example on OGB-MAG."""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import HeteroConv, Linear, SAGEConv
from torch_geometric.utils import trim_to_layer

import halohop.glt as glt


class HierarchicalHeteroGraphSage(torch.nn.Module):
    def __init__(self, edge_types, hidden_channels, out_channels, num_layers):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            HeteroConv({edge_type: SAGEConv((-1, -1), hidden_channels) for edge_type in edge_types}, aggr="sum")
            for _ in range(num_layers)
        )
        self.lin = Linear(hidden_channels, out_channels)

    def forward(self, x_dict, edge_index_dict, num_sampled_edges_dict, num_sampled_nodes_dict):
        for i, conv in enumerate(self.convs):
            x_dict, edge_index_dict, _ = trim_to_layer(
                layer=i,
                num_sampled_nodes_per_hop=num_sampled_nodes_dict,
                num_sampled_edges_per_hop=num_sampled_edges_dict,
                x=x_dict,
                edge_index=edge_index_dict,
            )
            x_dict = {key: x.relu() for key, x in conv(x_dict, edge_index_dict).items()}
        return self.lin(x_dict["paper"])


parser = argparse.ArgumentParser()
parser.add_argument("--root", required=True)
args = parser.parse_args()

glt.utils.seed_everything(5)
data = torch.load(f"{args.root}/mag.pt")
edge_dict = {tuple(name.split("__")): edge_index for name, edge_index in data["edges"].items()}
dataset = glt.data.Dataset(edge_dir="in")
dataset.init_graph(edge_index=edge_dict, layout=dict.fromkeys(edge_dict, "COO"), graph_mode="CPU")
dataset.init_node_features(node_feature_data=data["x"], with_gpu=False)
dataset.init_node_labels(node_label_data={"paper": data["y"]})

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
fanouts = {edge_type: [6, 4] for edge_type in edge_dict}
train_loader = glt.loader.NeighborLoader(
    dataset, fanouts, ("paper", data["train_idx"]), batch_size=64, shuffle=True, device=device
)
val_loader = glt.loader.NeighborLoader(dataset, fanouts, ("paper", data["test_idx"]), batch_size=128, device=device)
model = HierarchicalHeteroGraphSage(list(edge_dict), 32, int(data["y"].max()) + 1, num_layers=2).to(device)


def forward(batch):
    out = model(batch.x_dict, batch.edge_index_dict, batch.num_sampled_edges, batch.num_sampled_nodes)
    size = batch["paper"].batch_size
    return out[:size], batch["paper"].y[:size]


with torch.no_grad():
    forward(next(iter(train_loader)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(1, 7):
    model.train()
    losses = []
    for batch in train_loader:
        optimizer.zero_grad()
        out, y = forward(batch)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"Epoch {epoch:02d}, Loss: {sum(losses) / len(losses):.4f}")
model.eval()
with torch.no_grad():
    correct = sum(int((out.argmax(-1) == y).sum()) for out, y in map(forward, val_loader))
print(f"Test: {correct / len(data['test_idx']):.4f}")
