"""The folder that people read and edit: written after every change, and what they change in it comes back."""
