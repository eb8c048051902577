"""Evaluations of recall and of rules. They may import everything but integrations and interfaces."""
