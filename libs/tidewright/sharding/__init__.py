"""Sharding for workers: the keyspace, the assignment document, and a member's side of the hand-over.

keyspace    hashes, ranges, runs of slots
source      which objects a set is about, and what of an object is hashed
lease       lease arithmetic: who may act until when
document    the assignment document: who owns which slot, and the ledger entries that change it
member      a worker's side of the protocol, without I/O: observe, prepare, activate, drain, revoke
wire        the document as it stands in a ShardSet's status
record      a member's ShardMember: its lease and its voice
worker      the whole of a worker but its work: four callbacks and a guard
load        how busy each slot is, as members report it
signals     what else members tell: backlog, queue wait, errors, hot keys
histogram   a histogram that is part of a folded state
"""
