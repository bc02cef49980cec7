"""`dgl.nn` under the name that it has where DGL has one module for each framework."""

from halohop.dgl.nn import *  # noqa: F403
