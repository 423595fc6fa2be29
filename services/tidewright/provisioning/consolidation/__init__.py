"""Nodes that are used more than scale-down looks at, and that the others have room for all the same. Addendum 4.2.

modes        the setting `consolidation`: how far it goes, by group
protection   which nodes and pods are left alone, in both vocabularies
budgets      how many nodes of a group may go at a time, and when

What it finds goes the way of scale-down: the same passes, delays and removals.
"""
