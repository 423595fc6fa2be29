"""Who owns which slot. Pure.

assign       sticky assignment with the fewest moves
balance      slots moved for their load: few, and only if it helps
handover     prepare, drain, grant: which ledger entries come next
autosize     how many shards a load needs
"""
