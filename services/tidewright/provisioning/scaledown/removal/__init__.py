"""A node's way out, from the decision to remove it until its instance is asked to be deleted.

    saga       what is remembered of it, folded from decisions, outcomes and facts
    steps      what comes next: mark, wait, evict, wait, delete; or undo
    evicting   whose turn it is, and what disruption budgets have room for
    standing   the pods of a node as they are now, judged again
    needed     nodes that pods need after all; on_their_way: pods whose others have not come yet
    soft       the soft taint of nodes that wait
    marking    marks on nodes, and those that were left over
    words      object events about it, as users of the reference know them

Every step is a decision, every answer an outcome, so that a process that dies in between is no event at all. Until
the deletion is decided, whatever has changed undoes the removal; after that nothing does.
"""
