"""A process that imports a source into a memory, and says how far it is: `importer.py FOLDER SOURCE`."""

from __future__ import annotations

import sys

from reverie import Memory


def main() -> None:
    folder, source = sys.argv[1:3]
    with Memory.open(folder) as memory:
        print("open", flush=True)
        done = memory.admin.import_from(source, progress=lambda count: print("dealt with", count, flush=True))
        print("taken", done.taken, flush=True)


main()
