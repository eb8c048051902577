"""Interfaces for people and programs: command line, hooks and MCP. They may import everything else."""
