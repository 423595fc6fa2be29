"""CustomResourceDefinitions.

definitions       served as soon as they are stored; custom: what one version asks of its objects
definition_rules  what is wrong with one; schema_rules: with its schemas; cel_fields: with its rules
structural        prune, default and validate objects; formats: of strings
rules             `x-kubernetes-validations`; cel: expressions
conversion        between served versions
"""
