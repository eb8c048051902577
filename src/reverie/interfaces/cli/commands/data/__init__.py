"""Commands that read and write content. Imports as `commands` does."""
