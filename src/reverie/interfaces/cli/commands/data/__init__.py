"""Commands on content: records, pages, conversations, files, import and export."""
