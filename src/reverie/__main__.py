"""The command line as `python -m reverie`."""

from reverie.interfaces.cli.entry import main

if __name__ == "__main__":
    main()
