"""Which Machines a resource of Cluster API has, kept up to date by what is heard, is what all of it would say."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidewright.cloud.clusterapi.followed import Followed
from tidewright.cloud.clusterapi.objects import DEPLOYMENT, SET, Machine, Metadata, Reference, Scalable

NAMES = st.sampled_from(["a", "b"])
OWNERS = st.sampled_from(["gone", None, *((kind, name) for kind in (DEPLOYMENT, SET) for name in ("a", "b"))])


class Heard:
    """An informer that is told."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Any] = {}
        self.touched: set[tuple[str, str]] | None = None

    def news(self) -> set[tuple[str, str]] | None:
        touched, self.touched = self.touched, set()
        return touched

    def tell(self, name: str, it: Any) -> None:
        key = ("ns", name)
        if it is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = it
        if self.touched is not None:
            self.touched.add(key)


def metadata(name: str, owner: tuple[str, str] | None) -> Metadata:
    references = (Reference(kind=owner[0], name=owner[1], controller=True),) if owner is not None else None
    return Metadata(name=name, namespace="ns", ownerReferences=references)


def following(sets: Heard, machines: Heard) -> Followed:
    nothing: Any = None
    followed = Followed(nothing, nothing, ("",))
    told: Any = {(SET, ""): sets}
    followed._resources = told
    of_machines: Any = {"": machines}
    followed._machines = of_machines
    return followed


CHANGES = st.lists(
    st.tuples(st.sampled_from(["set", "machine", "list"]), NAMES, OWNERS),
    min_size=4,
    max_size=30,
)


@example(changes=[("machine", "a", (SET, "b")), ("set", "b", (DEPLOYMENT, "a")), ("set", "b", "gone")])
@settings(max_examples=300)
@given(changes=CHANGES)
def test_machines_by_owner_are_the_same_as_looked_up_anew(
    changes: list[tuple[str, str, str | tuple[str, str] | None]],
) -> None:
    sets, machines = Heard(), Heard()
    followed = following(sets, machines)
    for number, (what, name, owner) in enumerate(changes, 1):
        gone = isinstance(owner, str)
        said = metadata(name, None if isinstance(owner, str) else owner)
        if what == "set":
            sets.tell(name, None if gone else Scalable(metadata=said))
        elif what == "machine":
            machines.tell(name, None if gone else Machine(metadata=said))
        else:
            machines.touched = None
        if number % 3 or number == len(changes):  # now and then two at once
            followed.take_in()
    fresh_sets, fresh_machines = Heard(), Heard()
    fresh_sets.objects, fresh_machines.objects = sets.objects, machines.objects
    anew = following(fresh_sets, fresh_machines)
    anew.take_in()
    for kind in (DEPLOYMENT, SET):
        for name in ("a", "b"):
            assert followed.machines_of(f"{kind}/ns/{name}") == anew.machines_of(f"{kind}/ns/{name}")
