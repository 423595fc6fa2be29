"""The specification's cases run against the deciders' own functions.

suite       what a family of cases brings: recognise a case, run it, say what differed
__main__    the runner behind `make vectors`
reference   what only the original's behaviour explains, with the reasons
watermark, spread, shards, provisioning, estimator     one adapter per schema
"""
