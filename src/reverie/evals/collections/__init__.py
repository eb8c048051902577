"""collections."""
