"""Starts `dist_train_sage_supervised.py` on all nodes of a configuration file, over ssh.

    python launch.py --config=dist_train_sage_sup_config.yml --master_addr=10.0.0.7 --master_port=11234

This is `python -m halohop.glt.launch` with GLT's file and port as defaults. Options of `halohop launch` work, too: `--dry-run`,
`--out`, `--token-file` and more.
"""

import os
import sys


def main() -> None:
    words = ["--config=dist_train_sage_sup_config.yml", "--master_port=11234", *sys.argv[1:]]
    os.execv(sys.executable, [sys.executable, "-m", "halohop.glt.launch", *words])


if __name__ == "__main__":
    main()
