"""Auto Scaling groups of AWS.

client      the provider interface over the services' APIs
config      which groups, where, and what the file of a cloud says (pure)
groups      a group as DescribeAutoScalingGroups tells it: instances, placeholders, scaling activities (pure)
templates   what a group's next node will look like (pure)
errors      the SDK's faults to errors
policies    what watcher and actuator may do, from the calls that are made
"""
