"""What follows for one spread after something has changed.

conclude       all of it, in its order
gathering      what one look at a spread gathers
places         the rules in force, and which pods hold a place
adopting       pods without a place, adopted where they run; adoption: where a node fits best
versions       which pods count together [2.6]
costing        deletion costs that change; costs: what they are
victims        who leaves when the workload shrinks, as its own controller picks
rescheduling   pods that cannot be scheduled move on; subsets close and open
wanted_status  the status as it shall be
"""
