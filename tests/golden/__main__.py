"""Writes the kept files anew: ``python -m tests.golden [--to FOLDER] [PART ...]``; all parts if none is named."""

import argparse
import sys
from pathlib import Path

from tests.golden import kept


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description="Writes the kept files of tests/golden anew.")
    parser.add_argument("parts", nargs="*", choices=[*kept.PARTS, []], metavar="PART", help=", ".join(kept.PARTS))
    parser.add_argument("--to", type=Path, default=kept.FILES, metavar="FOLDER", help="write here; keep why a case cannot run")
    arguments = parser.parse_args()
    for part in arguments.parts or kept.PARTS:
        cases = kept.now(part, keep_failures=arguments.to != kept.FILES)
        kept.write(part, cases, arguments.to)
        sys.stdout.write(f"{part}: {len(cases)} cases\n")


if __name__ == "__main__":
    main()
