"""The log: one JetStream stream per cluster, and the few protocol headers that the client lacks.

subjects    names on the bus: classes, slots, reversible escaping
errors      what can go wrong, as one tree
cancellation  a client that may lose a cancellation, asked so that it counts
credentials  a credentials file, looked at before it is used
opening     a connection to a server: soon or not at all, and why not
identity    who we are to the servers, and how we know that they are ours
elsewhere   when a server that answers nothing is left for another one
bus         one connection to a server: what it is asked, and how its refusals are raised
appending   a batch or nothing, signed, and behind what nobody believes
connection  `Log`: make or check the stream, append, look up, read
stream_settings whether a stream's settings are as wanted, and what is wrong with another's
install     what a log consists of on its server, made once
refusals    the server's error codes as errors of the log
diagnostics loggers whose library is imported with the first line
store_quota     refuse before the store is full
disk        room on a disk: how much is kept free, and the words when there is none
commit_pacing   how a writer of batches leaves the stream to the others
partial_batches batches that the server stored in part
belief      which messages are believed, whoever reads them
passing     the same of a whole log, as its records come by (pure)
signing     what a signature over a commit says, and whether it does
seals       signatures behind what is kept beside the log
keyfiles    signing keys and trust anchors as files
keyring     the keys on the log: in force when, and for what
keyrecord   a key record put on the log, by who holds the root key
signer      a service's signing key
trust       who is believed on a running log
verdicts    what is said of a message
doubts      what was not believed: counted, and told once
outage      what is said of a log that does not answer: each thing once
continuity  whether the log is still the one that was read so far
lookups     single messages, asked of the stream's leader: those that are believed
reader      read records in stream order from a position, without acknowledgements
batched_get many messages in one answer, from the subject index
last_per_subject the last message of subjects as of an earlier sequence, from the subject index
envelope    who wrote a message and why: the headers
snapshots   folds in an object-store bucket: how a restart is fast
checkpoint  a service's position in a slot, its epoch and its digests
input_set   what a service follows, by which its checkpoints say what they are made of
timers      wake-ups as scheduled messages of the server
clock       wall time to log time and back
redaction   secrets out of texts
export      the log, or a part of it, as one file
archive     a mirror of the stream, from which nothing is deleted
"""
