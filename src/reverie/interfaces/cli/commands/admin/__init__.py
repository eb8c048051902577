"""Commands that look after a memory: doctor, dreams, forget, history, redact. Imports as `commands` does."""
