"""From pods to one plan, and the plan carried out.

plans     what a plan is and what it is made against; words for results and reasons
options   one option: what each group could do; expander: which of them is chosen
sharing   the choice cut by limits and shared out among similar groups; groups below their minimum
least_sizes  groups below their minimum, and those that are to begin with a size
rounds    option after option until nothing is left, each on the world as the last one leaves it
leastcost/ all that waits and all groups planned as one: the expander `least-cost`
coming    nodes that are not there yet, by their names
orders    decisions as they go to the log
refusals  what a refusal said last of a shape
saga      a plan's increases carried out, and taken back
"""
