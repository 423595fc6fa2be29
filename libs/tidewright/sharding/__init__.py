"""Sharding for workers: the keyspace, the assignment document, and a member's side of the hand-over.

keyspace    hashes, ranges, runs of slots
lease       lease arithmetic: who may act until when
document    the assignment document: who owns which slot, and the ledger entries that change it
member      a worker's side of the protocol, without I/O: observe, prepare, activate, drain, revoke
fence       what a sink remembers: the highest epoch of each slot
"""
