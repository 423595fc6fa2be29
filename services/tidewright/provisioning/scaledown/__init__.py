"""Nodes that nobody needs.

idle       empty nodes, and when they go
unneeded   why nodes stay, as the reference's metric counts them
"""
