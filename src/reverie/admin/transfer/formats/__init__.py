"""What can be read, and what can be written? A module for each format; none of them touches a store."""
