"""Hooks of coding agents: the work of `reverie hook`. They may import MCP, and not the command line.

An event comes as JSON on standard input (`events`); what the agent shall read goes to standard output
(`turns`); `running` does one of it in a process that must be quick and must never stand in the agent's way.
"""
