"""Recall on test collections: run, measures and report."""
