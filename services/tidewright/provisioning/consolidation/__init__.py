"""Nodes that are used more than scale-down looks at: the others have room for their pods, or cheaper ones would. Addendum 4.2.

modes        the setting `consolidation`: how far it goes, by group
protection   which nodes and pods are left alone, in both vocabularies, and for how long
budgets      how many nodes of a group may go at a time, and when
kept         what is remembered of it, folded from the log
trials       what nodes would cost that hold the pods of others
spot         nodes that the cloud may take away
arrivals     which nodes have come for which replacement
replacing    a replacement, from the first round that finds it to the last node that goes

What it finds goes the way of scale-down: the same passes, delays and removals.
"""
