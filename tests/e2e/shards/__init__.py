"""Sharded controllers end to end, and fleets of the propeller manager."""
