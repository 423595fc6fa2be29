"""From pods to one plan: options per group, the choice, limits, balancing.

plans     what a plan is and what it is made against; words for results and reasons
options   one option: what each group could do, and which is chosen
sharing   the choice cut by limits and shared out among similar groups; groups below their minimum
rounds    option after option until nothing is left, each on the world as the last one leaves it
"""
