"""Passes: functions from a `PassInput` to a plan. Pure; no store, file or clock."""
