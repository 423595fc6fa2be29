"""The ledger of a spread: who was promised which place, and what came of it.

ledger       rules, placements and releases, folded to free slots
following    the ledger as a reader of the log has it: recounts lose nothing
placing      a pod's admission against it, and the entry to append first
"""
