"""Background thinking: each pass looks at what is stored and ends in a plan. Pure; no store, file or
clock."""
