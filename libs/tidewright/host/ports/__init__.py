"""What any port of ours needs.

connections        bounded in number, and in the time that a caller may take
bodies             of requests, read within bounds that slow senders cannot use up
tokens             that callers bring, from a file that is read again when it changes
certificate_files  a certificate in files, rotated without a restart
"""
