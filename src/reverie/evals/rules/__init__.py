"""Labelled evaluations: deduplication, sentence rules, secret detection and prompt attacks."""
