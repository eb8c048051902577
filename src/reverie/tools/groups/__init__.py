"""Groups of tools: each module has the tools over one part of a memory."""
