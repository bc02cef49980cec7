"""Starts `dist_train_sage_supervised.py` on all nodes of a configuration file, over ssh.

    python launch.py --config=dist_train_sage_sup_config.yml --master_addr=10.0.0.7 --master_port=11234

All of it is `halohop launch`, whose other options this script passes on: `--dry-run`, `--out`, `--token-file` and more.
"""

import argparse
import os
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="dist_train_sage_sup_config.yml", help="the configuration file")
    parser.add_argument("--epochs", type=int, default=10, help="epochs of training")
    parser.add_argument("--batch_size", type=int, default=2048, help="seeds of a batch")
    parser.add_argument("--master_addr", help="of node 0, as the other nodes reach it (default: as ssh reaches it)")
    parser.add_argument("--master_port", type=int, default=11234, help="where all trainers meet; the next two are used, too")
    own, more = parser.parse_known_args()
    words = [f"--{name}={value}" for name, value in vars(own).items() if value is not None]
    os.execv(sys.executable, [sys.executable, "-m", "halohop", "launch", *words, *more])


if __name__ == "__main__":
    main()
