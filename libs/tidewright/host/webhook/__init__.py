"""Endpoints that the API server calls. A service brings its routes; the rest is here.

running       the life of one replica: read, be trusted, serve, leave
server        its options, its certificate, its port
standing      trusted while its service acts, forgotten in shadow and at the end; new certificates in time
announce      how it makes itself known, without credentials: by a decision on the log
certificates  made and kept in memory
callers       who may call
reviews       AdmissionReviews as values (pure)
"""
