"""Dynamic resource allocation: devices that pods claim. Pure.

claims       what claims ask of devices
selectors    CEL over devices
devices      what selectors, taints and requests for capacity say of one
stock        what a node has of them, and what of that is taken
allocation   how they are handed out to pods
"""
