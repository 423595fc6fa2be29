"""The table of services says which kinds each explainer speaks about."""

from __future__ import annotations

import pytest

from tidewright.cli.asking.explain import explainer_of
from tidewright.cli.services import SERVICES, Service


@pytest.mark.parametrize("service", [s for s in SERVICES if s.explainer], ids=lambda s: s.name)
def test_the_table_names_the_kinds_of_the_explainer(service: Service) -> None:
    explainer = explainer_of(service)
    assert explainer is not None
    assert service.explains == explainer.kinds


def test_who_has_no_explainer_explains_nothing() -> None:
    assert not [s.name for s in SERVICES if s.explains and not s.explainer]
