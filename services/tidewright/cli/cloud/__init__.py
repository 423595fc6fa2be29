"""`tidewright cloud`: our clouds, for others.

command    `cloud serve`
"""
