"""Hooks of coding agents: the work of `reverie hook`. Imports the root modules and below.

An event arrives as JSON on standard input. What the agent reads goes to standard output.
A failure never blocks the agent.
"""
