"""The table of services says which kinds each explainer speaks about."""

from __future__ import annotations

import pytest

from tidewright.asking.explain import explainer_of
from tidewright.asking.objects import CLUSTER_SCOPED
from tidewright.asking.services import SERVICES, Service, load
from tidewright.host.fold.explainer import Reference


@pytest.mark.parametrize("service", [s for s in SERVICES if s.explainer], ids=lambda s: s.name)
def test_the_table_names_the_kinds_of_the_explainer(service: Service) -> None:
    explainer = explainer_of(service)
    assert explainer is not None
    assert service.explains == explainer.kinds


@pytest.mark.parametrize("service", [s for s in SERVICES if s.explainer], ids=lambda s: s.name)
def test_every_explainer_answers_every_question_about_what_it_does_not_know(service: Service) -> None:
    explainer, decider = explainer_of(service), load(service)
    assert explainer is not None
    for kind in sorted(explainer.kinds):
        asked = Reference(kind, "" if kind in CLUSTER_SCOPED else "shop", "nobody")
        state = decider.initial()
        assert explainer.told(state, asked).ledgers == () or kind in ("workloadspread", "pod")
        assert explainer.aggregate(state, asked) is None
        assert list(explainer.standing(state, asked, 1.0)) == []


def test_who_has_no_explainer_explains_nothing() -> None:
    assert not [s.name for s in SERVICES if s.explains and not s.explainer]
