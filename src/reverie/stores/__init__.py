"""Where things are kept. One protocol (`base`), and a file for each store that keeps it."""
