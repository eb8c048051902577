"""Import and export formats, one module each; none of them touches a store."""
