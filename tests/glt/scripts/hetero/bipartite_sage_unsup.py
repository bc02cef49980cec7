"""Which items users take, by GraphSAGE over a bipartite graph and one of items alone; as in GLT's example on Taobao."""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import Linear, SAGEConv

import halohop.glt as glt
from halohop.glt.typing import reverse_edge_type

TO, REV, SIM = ("user", "to", "item"), ("item", "rev_to", "user"), ("item", "to", "item")

parser = argparse.ArgumentParser()
parser.add_argument("--root", required=True)
parser.add_argument("--edge_dir", choices=["in", "out"], default="out")
args = parser.parse_args()

glt.utils.seed_everything(2)
data = torch.load(f"{args.root}/taobao.pt")
num_users, num_items = data["num_users"], data["num_items"]
edges = {TO: data["user_item"], REV: data["user_item"].flip(0), SIM: data["item_item"]}
dataset = glt.data.Dataset(edge_dir=args.edge_dir)
dataset.init_graph(edge_index=edges, graph_mode="CPU", directed=True)
dataset.init_node_features(
    {"user": torch.arange(num_users).view(-1, 1), "item": torch.arange(num_items).view(-1, 1)}, with_gpu=False
)

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def loader(index, **kwargs):
    return glt.loader.LinkNeighborLoader(
        dataset,
        num_neighbors={TO: [8, 4], REV: [8, 4], SIM: [8, 4]},
        edge_label_index=(TO, index),
        neg_sampling="binary",
        batch_size=256,
        device=device,
        **kwargs,
    )


class Model(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.user_emb, self.item_emb = torch.nn.Embedding(num_users, hidden), torch.nn.Embedding(num_items, hidden)
        self.items, self.users = SAGEConv(hidden, hidden), SAGEConv((hidden, hidden), hidden)
        self.lin_user, self.lin_item = Linear(hidden, hidden), Linear(hidden, hidden)

    def forward(self, batch, links):
        user, item = self.user_emb(batch["user"].x.view(-1)), self.item_emb(batch["item"].x.view(-1))
        item = item + self.items(item, batch[SIM].edge_index).relu()
        user = user + self.users((item, user), batch[REV].edge_index).relu()  # from items to users in both directions
        user, item = self.lin_user(user), self.lin_item(item)
        return (user[links[0]] * item[links[1]]).sum(-1)


def links_of(batch):
    """With "out" batches hold labelled pairs turned around, of the relation that is turned around."""
    if args.edge_dir == "in":
        return batch[TO].edge_label_index, batch[TO].edge_label
    store = batch[reverse_edge_type(TO)]
    return store.edge_label_index.flip(0), store.edge_label


model = Model(16).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
known = set(zip(*edges[TO].tolist(), strict=True))
for epoch in range(1, 15):
    model.train()
    total_loss = total_examples = 0
    for batch in loader(edges[TO], shuffle=True):
        optimizer.zero_grad()
        links, label = links_of(batch)
        pairs = torch.stack([batch["user"].node[links[0]], batch["item"].node[links[1]]])
        assert [pair in known for pair in zip(*pairs.tolist(), strict=True)] == label.bool().tolist()
        out = model(batch, links)
        loss = F.binary_cross_entropy_with_logits(out, label)
        loss.backward()
        optimizer.step()
        total_loss += loss.item() * len(out)
        total_examples += len(out)
    print(f"Epoch {epoch:02d}, Loss: {total_loss / total_examples:.4f}")

model.eval()
with torch.no_grad():
    scored = [(model(batch, links_of(batch)[0]), links_of(batch)[1].bool()) for batch in loader(data["test_user_item"])]
scores, labels = (torch.cat(parts) for parts in zip(*scored, strict=True))
print(f"Test: {float((scores[labels][:, None] > scores[~labels][None]).float().mean()):.4f}")
