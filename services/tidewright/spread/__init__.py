"""WorkloadSpread (`apps.kruise.io`): which subset a new pod goes to, which pod leaves first, and why.

decide       the decider: its state, how it evolves, what it decides
state        what it remembers
upcasts      states as earlier versions stored them
holding      spreads that the modes in force hold back
settings     the service's part of the configuration: what in it is not used
fold/        evolve: one module per kind of input
ledger/      rules, placements and what came of them
control/     what follows for one spread: places, costs, adoption, rescheduling, status
match/       whose pod is it, and what of a pod counts
api/         the resource: validation, conversion, the webhooks' configuration
admission/   the HTTPS endpoint that the API server calls: the only shell here
tell/        everything in words: lines, sentences, explaining, planning
"""
