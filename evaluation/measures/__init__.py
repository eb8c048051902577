"""Code of the measurements of rules, everyday questions and months of use. Imports all of `reverie`."""
