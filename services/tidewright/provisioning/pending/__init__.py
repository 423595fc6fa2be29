"""Pending pods, and which of them may cause an increase now.

pods         the pods of an evaluation
helped       the rules by which a pod causes one or not
ordering     nodes ordered for them, and for those that are about to come
burst        when all that comes together has come
"""
