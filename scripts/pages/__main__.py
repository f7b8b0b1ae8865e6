"""Writes the page with this name to standard output: `python -m pages command-line`."""

import sys
from importlib import import_module

if __name__ == "__main__":
    module = import_module(f"pages.{sys.argv[1].replace('-', '_')}")
    sys.stdout.writelines(module.pages())
