"""Measurements on labelled sets: the sets, and in `measures` the code that judges Reverie by them."""
