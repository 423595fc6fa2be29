"""The sealed archive: segments of the log in a folder or bucket, signed one after the other by a key that only the archiver has.

segment   one segment: an export, and behind it what is signed about it
chain     whether segments are what was sealed, in their order, by whom: pure
store     where they lie: a folder, or what speaks S3
s3        the latter, of the extra `aws`
keys      the archiver's key, and the one that comes after it
sealing   one segment more
errors    what can go wrong
reading   a whole archive as one exported file is read
"""
