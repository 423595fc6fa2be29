"""The resource.

validation   the rules of the validating webhook, V1 to V25
conversion   between the two served versions
hooks        the webhooks' configuration
"""
