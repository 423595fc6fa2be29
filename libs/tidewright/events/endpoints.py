"""Endpoints of ours that the API server calls: whose certificates it trusts.

A replica of an endpoint makes its own key, keeps it in memory, and decides that the API server shall
trust the certificate of its authority. The actuator joins the certificates of all replicas in the
webhook configurations; its outcome tells the replica that it can be called.
"""

from __future__ import annotations

from tidewright.events.base import JsonObject
from tidewright.events.decisions import Effect


class EndpointEffect(Effect, frozen=True, kw_only=True):
    """What both decisions say.

    Attributes:
        ca: certificate of the replica's authority, PEM. Public; keys are never on the log.
        configurations: the webhook configurations as they shall be, whole, but for the `caBundle`s.
        conversions: CustomResourceDefinition to its `spec.conversion` as it shall be, but for the
            `caBundle`. Versions that need it are served as soon as it is there.
    """

    ca: str
    configurations: tuple[JsonObject, ...] = ()
    conversions: dict[str, JsonObject] = {}


class TrustEndpoint(EndpointEffect, frozen=True, kw_only=True, tag="decision.trust-endpoint.v1"):
    """Let the API server trust a replica: join its certificate to those of the others.

    Attributes:
        retired: certificates that this replica has stopped to use, PEM.
    """

    retired: tuple[str, ...] = ()


class ForgetEndpoint(EndpointEffect, frozen=True, kw_only=True, tag="decision.forget-endpoint.v1"):
    """A replica ends: take its certificate out.

    Attributes:
        remove_last: when no certificate is left, remove the configurations too, so that nothing that
            only this endpoint could allow is refused after its end.
        alone: no other replica can answer at its address. Certificates that are left are then of
            replicas there that were killed, and keep nothing in force.
        if_last: nothing at all is done while another certificate is left; the outcome then says `found`.
    """

    remove_last: bool = False
    alone: bool = False
    if_last: bool = False
