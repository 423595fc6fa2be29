"""Evolve: what each event changes in the state.

evolve       which of these an event is for, and the surroundings; touched: what it touched
pods         facts about pods
workloads    facts about workloads: targets, and what stands between them and their pods
spreads      facts about spreads: what they are; targets: whose target is whose
ledger       the ledger, our own decisions and what came of them
modes        who may act, and what is dropped when that changes
owners       rows taken out of one place and put into another, as owners and filters become known
"""
