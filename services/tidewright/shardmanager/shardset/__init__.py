"""Native mode: ShardSets, whose workers acknowledge what they are given.

spec           what a ShardSet asks for; spec_reader: its values, one by one; mapping: the strategy of that name
state          a set as a fold: spec, assignment document, members
members        what members report; timing: how long hand-overs take
rounds         one round: membership, hand-over, sizes, pods, what is published
assignment/    who owns which slot, when slots move, how many shards there are
pods/          the workers' pods: in place, gated, or those of a StatefulSet
status         the status as workers read it, and its conditions
signals        what members tell of their work, judged
"""
