"""Server-side apply.

applying      a manager says which fields it wants, and owns exactly these
managed       who owns which field, and the merge of what is applied
field_sets    sets of fields as `fieldsV1` writes them
typing        how values merge: keyed lists, sets, maps
"""
