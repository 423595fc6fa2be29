"""Machines of Cluster API: MachineDeployments, MachineSets of their own, MachinePools.

client      the provider interface over these objects
config      which objects, and in which cluster
resources   a group as its objects tell it: limits, instances, templates, options (pure)
"""
