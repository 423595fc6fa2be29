"""Whose pod is it.

matching     owner chains and filters
pods         the facts about a pod that decisions use, its version
admit        which spread takes a new pod, and why one is refused
"""
