"""The built-in kinds.

resources     what is served under which name; builtin: one line per kind; schemas: their fields
strategies    what each kind does on its way into the store
defaults      defaults and server-set fields; pod_defaults: of pods
metadata      what the server sets, keeps and lets nobody change
validate      metadata and kinds; pod_rules, workload_rules, config_rules: by kind
"""
