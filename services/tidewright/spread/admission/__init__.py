"""The admission endpoint: what the API server asks, answered from the ledgers on the log.

endpoint     what it answers: pods on create, delete and eviction; spreads; conversion
books        the ledgers as it keeps them: followed, appended under expectation
observed     what it knows besides: owners, templates, configuration
"""
