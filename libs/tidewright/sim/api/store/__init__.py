"""What is kept.

store         encoded objects, one counter of resourceVersions, a bounded history
journal       what makes it survive the death of its process
gc            dependents of deleted owners, contents of namespaces
residents     what every namespace has from its first moment
"""
