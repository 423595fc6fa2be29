"""What is derived from the state, and kept along with it.

index        nodes as columns, pods that wait, consumers
indexing     built from the state; every change of a node or a pod goes through it
resolving    shapes as placement sees them
claims       volumes and devices that pods claim; offers: devices that there are
settling     all of it put right before an evaluation places anything
"""
