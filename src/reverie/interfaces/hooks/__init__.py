"""How does a coding agent that runs commands at its events remember? The work of `reverie hook`.

An event comes as JSON on standard input (`events`); what the agent shall read goes to standard output
(`turns`); `running` does one of it in a process that must be quick and must never stand in the agent's way.
"""
