"""A model with switches: which of its intended differences explain what ours answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def smallest(tags: Iterable[str], explains: Callable[[frozenset[str]], bool]) -> tuple[str, ...]:
    """A smallest set of differences that explain an answer; empty when all of them do not.

    All of them together are ours, so they must explain it: a set that is right by chance explains nothing.

    Args:
        tags: of all differences of the model, in the order of their listing.
        explains: whether the model answers as ours does when it follows these.
    """
    listed = tuple(tags)
    if not explains(frozenset(listed)):
        return ()
    for tag in listed:
        if explains(frozenset({tag})):
            return (tag,)
    needed = frozenset(listed)
    for tag in listed:
        if explains(needed - {tag}):
            needed -= {tag}
    return tuple(tag for tag in listed if tag in needed)
