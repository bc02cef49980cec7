"""R-GAT on a graph of IGBH's shape, as MLPerf's reference trains it on one machine."""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, HeteroConv

import halohop.glt as glt


class RGNN(torch.nn.Module):
    def __init__(self, etypes, in_dim, h_dim, out_dim, num_layers, dropout, n_heads, node_type):
        super().__init__()
        self.node_type, self.lin = node_type, torch.nn.Linear(h_dim, out_dim)
        self.dropout = dropout
        self.convs = torch.nn.ModuleList()
        for i in range(num_layers):
            dim = in_dim if i == 0 else h_dim
            conv = {etype: GATConv(dim, h_dim // n_heads, heads=n_heads, add_self_loops=False) for etype in etypes}
            self.convs.append(HeteroConv(conv))

    def forward(self, x_dict, edge_index_dict):
        for i, conv in enumerate(self.convs):
            x_dict = conv(x_dict, edge_index_dict)
            if i < len(self.convs) - 1:
                x_dict = {key: F.dropout(F.leaky_relu(x), p=self.dropout, training=self.training) for key, x in x_dict.items()}
        return self.lin(F.leaky_relu(x_dict[self.node_type]))


parser = argparse.ArgumentParser()
parser.add_argument("--path", required=True)
parser.add_argument("--fan_out", default="6,4")
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--learning_rate", type=float, default=0.005)
parser.add_argument("--use_fp16", action="store_true")
parser.add_argument("--with_trim", action="store_true")
parser.add_argument("--edge_dir", default="in")
parser.add_argument("--random_seed", type=int, default=42)
args = parser.parse_args()

glt.utils.common.seed_everything(args.random_seed)
device = torch.device(torch.cuda.current_device() if torch.cuda.is_available() else "cpu")
igbh = torch.load(f"{args.path}/igbh.pt")
edge_dict = {tuple(name.split("__")): edge_index for name, edge_index in igbh["edges"].items()}

glt_dataset = glt.data.Dataset(edge_dir=args.edge_dir)
glt_dataset.init_node_features(
    node_feature_data={name: x.half() if args.use_fp16 else x for name, x in igbh["x"].items()},
    with_gpu=False,
    split_ratio=0.0,
    device_group_list=None,
    dtype=torch.float16 if args.use_fp16 else torch.float32,
)
glt_dataset.init_graph(edge_index=edge_dict, layout="COO", graph_mode="ZERO_COPY" if torch.cuda.is_available() else "CPU")
glt_dataset.init_node_labels(node_label_data={"paper": igbh["y"]})
glt_dataset.init_node_split((igbh["train_idx"], igbh["val_idx"], None))

fan_out = [int(x) for x in args.fan_out.split(",")]
common = {"batch_size": args.batch_size, "device": device, "seed": args.random_seed}
train_loader = glt.loader.NeighborLoader(
    glt_dataset, fan_out, ("paper", glt_dataset.train_idx), shuffle=True, drop_last=True, **common
)
val_loader = glt.loader.NeighborLoader(glt_dataset, fan_out, ("paper", glt_dataset.val_idx), **common)

in_dim = glt_dataset.node_features["paper"].shape[1]
assert glt_dataset.node_features["author"].feature_tensor.dtype == (torch.float16 if args.use_fp16 else torch.float32)
etypes = (
    glt_dataset.get_edge_types() if args.edge_dir == "in" else [glt.reverse_edge_type(e) for e in glt_dataset.get_edge_types()]
)
model = RGNN(etypes, in_dim, 32, igbh["num_classes"], len(fan_out), dropout=0.1, n_heads=4, node_type="paper").to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)
loss_fcn = torch.nn.CrossEntropyLoss().to(device)


def forward(batch):
    batch_size = batch["paper"].batch_size
    assert batch["paper"].x.dtype == (torch.float16 if args.use_fp16 else torch.float32)
    x_dict = {node_name: node_feat.to(device).to(torch.float32) for node_name, node_feat in batch.x_dict.items()}
    return model(x_dict, batch.edge_index_dict)[:batch_size], batch["paper"].y[:batch_size]


@torch.no_grad()
def evaluate():
    model.eval()
    correct = sum(int((out.argmax(-1) == y).sum()) for out, y in map(forward, val_loader))
    model.train()
    return correct / len(glt_dataset.val_idx)


ckpt_dir, start = f"{args.path}/checkpoints", 0
start = max(glt.utils.load_ckpt(0, ckpt_dir, model, optimizer), 0)
assert start == 0
for epoch in range(1, 8):
    total_loss = 0.0
    for batch in train_loader:
        out, y = forward(batch)
        loss = loss_fcn(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total_loss += loss.item()
    glt.utils.save_ckpt(epoch, ckpt_dir, model, optimizer, epoch)
    print(f"Epoch {epoch:02d}, Loss: {total_loss / len(train_loader):.4f}")
accuracy = evaluate()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.zero_()
assert glt.utils.load_ckpt(7, ckpt_dir, model, optimizer) == 7
assert abs(evaluate() - accuracy) < 0.05  # the next epoch of the loader draws anew
print(f"Test: {accuracy:.4f}")
