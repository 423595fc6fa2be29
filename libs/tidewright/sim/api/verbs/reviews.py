"""Reviews: who am I, and may I? The embedded cluster answers yes to everyone."""

from __future__ import annotations

from typing import Any

from tidewright.sim.api.http.request import Request, decode_body

Object = dict[str, Any]
USER: Object = {
    "username": "tidewright-admin",
    "uid": "tidewright-admin",
    "groups": ["system:masters", "system:authenticated"],
}


def review(request: Request) -> Object:
    """Answer one of the create-only kinds of authentication and authorization."""
    obj = decode_body(request.body, request.headers.get("Content-Type", ""))
    obj["apiVersion"], obj["kind"] = request.api_version, request.kind.kind
    obj.setdefault("metadata", {})
    match request.kind.kind:
        case "SelfSubjectReview":
            obj["status"] = {"userInfo": USER}
        case "TokenReview":
            obj["status"] = {"authenticated": True, "user": USER}
        case "SelfSubjectRulesReview":
            obj["status"] = {
                "incomplete": False,
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }
        case _:
            obj["status"] = {"allowed": True, "reason": "the embedded cluster allows everything"}
    return obj
