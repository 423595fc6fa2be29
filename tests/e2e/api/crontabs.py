"""The custom resource of the tests: one with everything that a schema can ask for."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def definition(group: str) -> Object:
    spec: Object = {
        "type": "object",
        "required": ["schedule"],
        "properties": {
            "schedule": {"type": "string", "pattern": r"^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$"},
            "image": {"type": "string", "default": "busybox", "maxLength": 20},
            "replicas": {"type": "integer", "minimum": 0, "maximum": 10},
            "policy": {"type": "string", "enum": ["Allow", "Forbid"]},
            "budget": {"x-kubernetes-int-or-string": True},
            "since": {"type": "string", "format": "date-time"},
            "pause": {"type": "string", "nullable": True},
            "target": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "selector": {"type": "string"}},
                "oneOf": [{"required": ["name"]}, {"required": ["selector"]}],
            },
            "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "steps": {
                "type": "array",
                "maxItems": 3,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string"},
                        "weight": {"type": "integer", "default": 1},
                    },
                },
            },
        },
        "x-kubernetes-validations": [
            {"rule": "self.image != 'forbidden'", "message": "image must not be forbidden"},
            {
                "rule": "!has(oldSelf.replicas) || (has(self.replicas) && self.replicas >= oldSelf.replicas)",
                "message": "replicas may only grow",
            },
            {
                "rule": "!has(self.since) || self.since < timestamp('2100-01-01T00:00:00Z')",
                "messageExpression": "'too far away for ' + self.schedule",
                "fieldPath": ".since",
                "reason": "FieldValueForbidden",
            },
            {
                "rule": "!has(self.budget) || oldSelf.hasValue() || self.budget == 1",
                "message": "begins with a budget of 1",
                "optionalOldSelf": True,
            },
        ],
    }
    schema: Object = {
        "type": "object",
        "properties": {
            "spec": spec,
            "status": {
                "type": "object",
                "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
            },
        },
    }
    version: Object = {
        "served": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"crontabs.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": "crontabs",
                "singular": "crontab",
                "kind": "CronTab",
                "shortNames": ["ctab"],
                "categories": ["tidewright"],
            },
            "versions": [
                {"name": "v1", "storage": True, **version},
                {"name": "v1beta1", "storage": False, **version},
            ],
        },
    }


def crontab(group: str, name: str, **spec: Any) -> Object:
    return {
        "apiVersion": f"{group}/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"schedule": "* * * * */5", **spec},
    }
