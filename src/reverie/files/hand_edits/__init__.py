"""hand_edits."""
