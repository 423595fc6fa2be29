"""The workers' pods.

rollbacks     which template pods are to be made from
driver        the pods of a set whose workers the manager starts itself
in_place      one step: create what is missing, replace what is outdated
gates         gate mode: unmodified workers that elect, and their Leases; gate_plan: one step of it
stateful_set  a StatefulSet of workers: how many, and who goes first
rollout       one step of a rolling update
marks         which pods are whose, by their names and marks
workers       what the worker of one shard is told; inject: how it gets into its container
claims        what a pod may act on, as it was told
"""
