"""The memory as a whole: history, erasure, diagnosis, statistics, backup, import and export."""
