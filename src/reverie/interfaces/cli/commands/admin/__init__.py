"""Commands on the memory as a whole: history, erasure, diagnosis and upkeep."""
