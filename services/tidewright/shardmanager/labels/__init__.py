"""The slot label on objects that workers select by.

hook         which sets have it, and one review's answer (pure)
endpoint     the HTTPS endpoint: `tidewright run shard-labels`
labeller     objects that missed it: one patch each
"""
