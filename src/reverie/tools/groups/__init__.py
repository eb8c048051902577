"""Groups of tools, one module each. Imports the framework in `tools` and what is below."""
