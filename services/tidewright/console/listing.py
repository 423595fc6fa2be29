"""All objects of a kind, a page of them at a time."""

from __future__ import annotations

from typing import Any

from tidewright.asking.answers.listing import ListedObject
from tidewright.asking.errors import BadInput
from tidewright.console.asked import Looking
from tidewright.console.lists import TITLES, Lists
from tidewright.console.overview import group_row

AT_ONCE = 50
SORTS = ("name", "change", "wrong")


async def page(lists: Lists, looking: Looking, kind: str) -> dict[str, Any]:
    """What the template is given.

    Raises:
        BadInput: no kind that is listed, or no page of it.
    """
    if kind not in TITLES:
        raise BadInput(f"{kind}: such objects are not listed; valid are {', '.join(TITLES)}")
    rows = await lists.of(kind, looking.moment)
    text, space, only = looking.given("text").lower(), looking.given("namespace"), looking.given("only")
    sort = looking.given("sort") or "name"
    if sort not in SORTS:
        raise BadInput(f"sort={sort}: one of {', '.join(SORTS)}")
    items = [item for item in rows.items() if _wanted(item, text, space, only)]
    if sort == "change":
        items.sort(key=lambda item: item.last_change or "", reverse=True)
    elif sort == "wrong":
        items.sort(key=lambda item: not item.wrong)
    number = looking.given("page") or "1"
    pages = max(1, -(-len(items) // AT_ONCE))
    if not number.isdigit() or not 1 <= int(number) <= pages:
        raise BadInput(f"page={number}: 1 to {pages}")
    shown = rows.whole(items[(int(number) - 1) * AT_ONCE : int(number) * AT_ONCE])
    return {
        "kind": kind,
        "title": TITLES[kind],
        "items": shown,
        "groups": [group_row(rows, item) for item in shown] if kind == "nodegroup" else [],
        "found": len(items),
        "objects": len(rows.rows),
        "page_number": int(number),
        "pages": pages,
        "sort": sort,
        "sorts": SORTS,
    }


def _wanted(item: ListedObject, text: str, namespace: str, only: str) -> bool:
    if namespace and item.namespace != namespace:
        return False
    if only == "wrong" and not item.wrong:
        return False
    if only == "moving" and (item.now == item.wanted or not item.wanted):
        return False
    return not text or text in f"{item.namespace}/{item.name} {item.why}".lower()
