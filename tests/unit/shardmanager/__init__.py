"""Tests of the shard manager; `cluster` is the fake API and actuator that several of them use."""
