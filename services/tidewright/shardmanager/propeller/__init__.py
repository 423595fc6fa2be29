"""Compat mode: fleets of the propeller manager, as its own manager runs them.

passes         what the fleets ask for: passes, locks, standing aside for other managers
fleet          one fleet as a fold, with the pass under way; fleet_config: which fleets there are;
               fleet_verdict: whether an entry is acted upon
config         the manager's configuration; config_read: from YAML, environment and flags; config_hash: its hash
validation     what is wrong with it
scan           what a pass over the pods has to do
pods           the pod of a shard
strategy       what each shard is told on its command line; worker: what it makes of that
election       lock names and identities; election_read: their configuration; manager_lock: the Lease held by us
resize         what a change of the number of shards does
"""
