"""The worker library."""
