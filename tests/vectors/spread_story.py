"""Stories."""

from tests.vectors.suite import Case


def run_story(case: Case) -> list[str]:
    return [f"{case['id']}: no stories yet"]
