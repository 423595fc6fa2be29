"""How the state follows from the log: nothing here asks what ought to be done, or what time it is.

evolve     one event, passed to those that keep something of it; touched: what it touched
pods       pods and templates that may belong to a fleet or a set
answers    who asked for an effect, and how it came out
modes      who may act, and what is dropped when that changes
fleets     fleets of the propeller manager: configuration, passes, locks
sets       ShardSets: spec, members, assignment, rollouts
set_pods   the pods of ShardSets
"""
