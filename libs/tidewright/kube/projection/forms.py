"""What the API's own types say of objects that facts have as they are stored, as far as somebody reads them.

    FORMS           of the kinds in `placement.KEPT`
    PodTemplate     of a pod template, of which pods are made
    LabelSelectorForm, ScopeSelector, Term, TolerationForm    of budgets, quotas and spreads

Readers rely on what an API server lets through: that labels are texts, and terms a list. An object that is otherwise
is refused by name where it comes in, whoever serves it. Templates of custom workloads, of which nobody says what they
are like, are none of these.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tidewright.kube.projection.reading import Meta
from tidewright.kube.quantities import QuantityText

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Texts: TypeAlias = list[str] | None
Amounts: TypeAlias = dict[str, QuantityText] | None


class _Api(msgspec.Struct, rename="camel"):
    """A part of the API: absent members are None, others are ignored."""


class Form(_Api):
    """An object of which nothing but its metadata has a form that matters."""

    metadata: Meta


class RequirementForm(_Api):
    """Of a label or a field."""

    key: str | None = None
    operator: str | None = None
    values: Texts = None


class LabelSelectorForm(_Api):
    """`matchLabels` and `matchExpressions`."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[RequirementForm] | None = None


class Term(_Api):
    """One of a node selector."""

    match_expressions: list[RequirementForm] | None = None
    match_fields: list[RequirementForm] | None = None


class NodeSelector(_Api):
    """Its terms."""

    node_selector_terms: list[Term] | None = None


class _Requested(_Api):
    requests: Amounts = None


class _ClaimSpec(_Api):
    access_modes: Texts = None
    storage_class_name: str | None = None
    volume_name: str | None = None
    selector: LabelSelectorForm | None = None
    resources: _Requested | None = None


class _ClaimForm(Form):
    spec: _ClaimSpec | None = None


class _Affinity(_Api):
    required: NodeSelector | None = None


class _Csi(_Api):
    driver: str | None = None


class _ClaimRef(_Api):
    namespace: str | None = None
    name: str | None = None


class _VolumeSpec(_Api):
    access_modes: Texts = None
    storage_class_name: str | None = None
    csi: _Csi | None = None
    node_affinity: _Affinity | None = None
    claim_ref: _ClaimRef | None = None
    capacity: Amounts = None


class _Volume(Form):
    spec: _VolumeSpec | None = None


class _TopologyLabel(_Api):
    key: str
    values: list[str]


class _Topology(_Api):
    match_label_expressions: list[_TopologyLabel] | None = None


class _StorageClass(Form):
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[_Topology] | None = None


class _Attachable(_Api):
    count: int | None = None


class _NodeDriver(_Api):
    name: str
    allocatable: _Attachable | None = None


class _CsiNodeSpec(_Api):
    drivers: list[_NodeDriver] | None = None


class _CsiNode(Form):
    spec: _CsiNodeSpec | None = None


class _CsiDriverSpec(_Api):
    storage_capacity: bool | None = None


class _CsiDriver(Form):
    spec: _CsiDriverSpec | None = None


class _Capacity(Form):
    storage_class_name: str | None = None
    node_topology: LabelSelectorForm | None = None
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None


class _Cel(_Api):
    expression: str | None = None


class _Selector(_Api):
    cel: _Cel | None = None


class TolerationForm(_Api):
    """Of a taint."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _Ask(_Api):
    """Of devices; before v1 it stood where the request stands."""

    name: str | None = None
    device_class_name: str | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    selectors: list[_Selector] | None = None
    tolerations: list[TolerationForm] | None = None
    capacity: _Requested | None = None


class _DeviceRequest(_Ask):
    exactly: _Ask | None = None
    first_available: list[_Ask] | None = None


class _Constraint(_Api):
    requests: Texts = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class _Devices(_Api):
    requests: list[_DeviceRequest] | None = None
    constraints: list[_Constraint] | None = None


class _DevicesSpec(_Api):
    devices: _Devices | None = None


class _Result(_Api):
    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Amounts = None
    admin_access: bool | None = None


class _Results(_Api):
    results: list[_Result] | None = None


class _Allocation(_Api):
    node_selector: NodeSelector | None = None
    devices: _Results | None = None


class _DeviceClaimStatus(_Api):
    allocation: _Allocation | None = None
    reserved_for: list[dict[str, Any]] | None = None


class _DeviceClaim(Form):
    spec: _DevicesSpec | None = None
    status: _DeviceClaimStatus | None = None


class _OfTemplate(_Api):
    spec: _DevicesSpec | None = None


class _DeviceClaimTemplate(Form):
    spec: _OfTemplate | None = None


class _OfClaims(_Api):
    """A volume that is made along with its pod."""

    spec: _ClaimSpec | None = None


class _Ephemeral(_Api):
    volume_claim_template: _OfClaims | None = None


class _ClaimName(_Api):
    claim_name: str | None = None


class _PodVolume(_Api):
    name: str | None = None
    persistent_volume_claim: _ClaimName | None = None
    ephemeral: _Ephemeral | None = None


class _PodResources(_Api):
    requests: Amounts = None
    limits: Amounts = None


class _Port(_Api):
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class _Variable(_Api):
    name: str | None = None
    value: str | None = None


class _Container(_Api):
    name: str | None = None
    command: Texts = None
    args: Texts = None
    env: list[_Variable] | None = None
    ports: list[_Port] | None = None
    resources: _PodResources | None = None
    restart_policy: str | None = None


class _PodTerm(_Api):
    label_selector: LabelSelectorForm | None = None
    topology_key: str | None = None
    namespaces: Texts = None
    namespace_selector: LabelSelectorForm | None = None
    match_label_keys: Texts = None
    mismatch_label_keys: Texts = None


class _Weighted(_Api):
    pod_affinity_term: _PodTerm | None = None


class _PodTerms(_Api):
    required: list[_PodTerm] | None = msgspec.field(default=None, name=REQUIRED)
    preferred: list[_Weighted] | None = msgspec.field(default=None, name=PREFERRED)


class _NodeTerms(_Api):
    required: NodeSelector | None = msgspec.field(default=None, name=REQUIRED)


class _PodAffinity(_Api):
    node_affinity: _NodeTerms | None = None
    pod_affinity: _PodTerms | None = None
    pod_anti_affinity: _PodTerms | None = None


class _SpreadConstraint(_Api):
    max_skew: int | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelectorForm | None = None
    min_domains: int | None = None
    match_label_keys: Texts = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class _PodClaim(_Api):
    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _PodSpecForm(_Api):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: _PodAffinity | None = None
    tolerations: list[TolerationForm] | None = None
    topology_spread_constraints: list[_SpreadConstraint] | None = None
    volumes: list[_PodVolume] | None = None
    resource_claims: list[_PodClaim] | None = None
    scheduling_gates: list[dict[str, Any]] | None = None
    overhead: Amounts = None
    resources: _PodResources | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    active_deadline_seconds: int | None = None


class _OfPods(_Api):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[dict[str, Any]] | None = None


class PodTemplate(_Api):
    """`metadata` and `spec` of pods."""

    metadata: _OfPods | None = None
    spec: _PodSpecForm | None = None


class _Attribute(_Api):
    string: str | None = None
    number: int | None = msgspec.field(default=None, name="int")
    flag: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None
    strings: Texts = None
    numbers: list[int] | None = msgspec.field(default=None, name="ints")
    flags: list[bool] | None = msgspec.field(default=None, name="bools")
    versions: Texts = None


class _Range(_Api):
    min: QuantityText | None = None
    max: QuantityText | None = None
    step: QuantityText | None = None


class _Policy(_Api):
    default: QuantityText | None = None
    valid_values: list[QuantityText] | None = None
    valid_range: _Range | None = None


class _DeviceCapacity(_Api):
    value: QuantityText
    request_policy: _Policy | None = None


class _CounterValue(_Api):
    value: QuantityText


class _CounterSet(_Api):
    name: str | None = None
    counter_set: str | None = None
    counters: dict[str, _CounterValue] | None = None


class _TaintForm(_Api):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class _DeviceFields(_Api):
    attributes: dict[str, _Attribute] | None = None
    capacity: dict[str, _DeviceCapacity] | None = None
    consumes_counters: list[_CounterSet] | None = None
    taints: list[_TaintForm] | None = None
    allow_multiple_allocations: bool | None = None
    binds_to_node: bool | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None


class _Device(_DeviceFields, kw_only=True):
    name: str
    basic: _DeviceFields | None = None


class _Pool(_Api):
    name: str | None = None
    generation: int | None = None


class _SliceSpec(_Api):
    driver: str | None = None
    pool: _Pool | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    shared_counters: list[_CounterSet] | None = None
    devices: list[_Device] | None = None


class _Slice(Form):
    spec: _SliceSpec | None = None


class _DeviceClassSpec(_Api):
    selectors: list[_Selector] | None = None
    extended_resource_name: str | None = None


class _DeviceClass(Form):
    spec: _DeviceClassSpec | None = None


class _DeviceSelector(_Api):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class _RuleSpec(_Api):
    device_selector: _DeviceSelector | None = None
    taint: _TaintForm | None = None


class _TaintRule(Form):
    spec: _RuleSpec | None = None


class _Limit(_Api):
    type: str | None = None
    default: Amounts = None
    default_request: Amounts = None
    min: Amounts = None
    max: Amounts = None
    max_limit_request_ratio: Amounts = None


class _LimitsSpec(_Api):
    limits: list[_Limit] | None = None


class _LimitRange(Form):
    spec: _LimitsSpec | None = None


class _PriorityClass(Form):
    value: int | None = None
    preemption_policy: str | None = None
    global_default: bool | None = None


class _Scope(_Api):
    scope_name: str | None = None
    operator: str | None = None
    values: Texts = None


class ScopeSelector(_Api):
    """Of a ResourceQuota."""

    match_expressions: list[_Scope] | None = None


FORMS: dict[str, type[Form]] = {
    "PersistentVolumeClaim": _ClaimForm,
    "PersistentVolume": _Volume,
    "StorageClass": _StorageClass,
    "CSINode": _CsiNode,
    "CSIDriver": _CsiDriver,
    "CSIStorageCapacity": _Capacity,
    "ResourceClaim": _DeviceClaim,
    "ResourceClaimTemplate": _DeviceClaimTemplate,
    "ResourceSlice": _Slice,
    "DeviceClass": _DeviceClass,
    "DeviceTaintRule": _TaintRule,
    "Namespace": Form,
    "LimitRange": _LimitRange,
    "PriorityClass": _PriorityClass,
}
"""By kind, as `placement.KEPT` has it."""
