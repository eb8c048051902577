"""How well does recall find what it should? Readers of test collections, measures, and the report."""
