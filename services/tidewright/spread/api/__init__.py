"""The resource.

spec         typed: target, filter, subsets, strategy (both served versions)
limits       `maxReplicas` as numbers: integers and percentages
validation   the rules of the validating webhook, V1 to V25
conversion   between the two served versions
hooks        the webhooks' configuration
"""
