"""`tidewright plan`: what would happen, before it does.

command    the table of subcommands, and `plan provisioning`
ws         `plan ws`: where pods of a WorkloadSpread would land
manifests  requests and templates as people write them
"""
