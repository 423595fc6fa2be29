"""All that waits and all groups planned as one, at least cost: the expander `least-cost`.

prices    what a node of each group costs: its price, or what it has weighted by how scarce that is
problem   the pods as classes, the groups as columns: integers, and nothing else
domains   pods that are spread over zones, divided among these: then they are like others
bound     what no plan of these pods can cost less than, and what each pod is worth by it
patterns  what one node may hold: the best of each group for given worths, and all that were found
master    which patterns, how often, in fractions: a linear programme over those found so far
search    the first plan, and the better one: patterns found where the programme lacks them, rounded to nodes
realising where there are more shapes than classes: the pods there are, on nodes that were planned for classes
reasons   what a plan costs, what it is compared with, and what each group was chosen for: for the log
planning  from pods that wait to a plan of scale-up, with limits, shared groups and reasons

The same problem gives the same plan on every machine: what is computed with fractions is computed element by element, in a
fixed order, and what is summed up is whole numbers. There is no clock: work is bounded by counting steps.
"""
