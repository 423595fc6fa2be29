"""The shard manager."""
