"""Sharding for workers: the keyspace, the assignment document, and a member's side of the hand-over.

keyspace    hashes, ranges, runs of slots
lease       lease arithmetic: who may act until when
document    the assignment document: who owns which slot, and the ledger entries that change it
member      a worker's side of the protocol, without I/O: observe, prepare, activate, drain, revoke
wire        the document as it stands in a ShardSet's status
record      a member's ShardMember: its lease and its voice
worker      the whole of a worker but its work: four callbacks and a guard
load        how busy each slot is, as members report it
fence       what a sink remembers: the highest epoch of each slot
"""
