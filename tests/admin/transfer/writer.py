"""A process that saves and talks until it is killed, and says what is acknowledged: `writer.py FOLDER X`."""

from __future__ import annotations

import sys

from reverie import Memory


def main() -> None:
    folder, name = sys.argv[1:3]
    with Memory.open(folder) as memory:
        session = memory.session(f"chat:{name}")
        for n in range(100_000):
            text = f"Crate {name}n{n} holds {('plums', 'pears', 'figs', 'limes')[n % 4]}"
            memory.save(text)
            print(text, flush=True)
            said = session.add("user", f"turn {name}n{n}").content
            print(said, flush=True)


main()
