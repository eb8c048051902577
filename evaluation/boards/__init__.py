"""Test collections: their readers, and the measurement of recall on them. Imports all of Reverie."""
