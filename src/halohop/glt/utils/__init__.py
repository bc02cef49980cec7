"""`graphlearn_torch.utils`, by its names."""

import sys
from typing import Any

from halohop.glt.notes import missing
from halohop.glt.utils.common import (
    CastMixin,
    count_dict,
    default_id_filter,
    default_id_select,
    ensure_dir,
    get_free_port,
    index_select,
    load_ckpt,
    merge_dict,
    save_ckpt,
    seed_everything,
    singleton,
)
from halohop.glt.utils.device import assign_device, ensure_device, get_available_device
from halohop.glt.utils.tensor import (
    apply_to_all_tensor,
    convert_to_tensor,
    id2idx,
    share_memory,
    squeeze,
    tensor_equal_with_device,
)
from halohop.glt.utils.topo import coo_to_csc, coo_to_csr, ptr2ind
from halohop.glt.utils.units import parse_size


def __getattr__(name: str) -> Any:
    return sys.is_finalizing() if name == "python_exit_status" else missing("utils", name)
