"""What whoever may write objects, settings or reviews could do to those that read them.

objects      one of each kind that the watcher follows, as an API server has it
mutations    the same with something else at some places
world        all deciders around them, from an object's bytes to decisions' bytes

Tests of what must hold are where the readers' other tests are: `tests/unit/test_hostile_objects.py` has all deciders,
`tests/unit/kube`, `watcher`, `spread` and `shardmanager` their part of it.
"""
