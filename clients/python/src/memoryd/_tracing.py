"""W3C Trace Context: which trace a call belongs to.

opentelemetry-api is used where the application has imported it, and never imported first: nobody
can have begun a trace with it before.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping

_FIELDS = ("traceparent", "tracestate")
_API = "opentelemetry.context"


def current() -> Mapping[str, str]:
    """What OpenTelemetry's propagator says of the context that is current; empty for none."""
    carrier: dict[str, str] = {}
    if _API in sys.modules:
        from opentelemetry import propagate

        propagate.inject(carrier)
    return carrier


def metadata(carrier: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The metadata of a call that belongs to this trace. Baggage is nothing to memoryd."""
    return tuple((name, carrier[name]) for name in _FIELDS if carrier.get(name))


@contextlib.contextmanager
def going_on(carrier: Mapping[str, str]) -> Iterator[None]:
    """Makes this trace OpenTelemetry's current one meanwhile, if there is any."""
    if _API not in sys.modules or not carrier.get(_FIELDS[0]):
        yield
        return
    from opentelemetry import context, propagate

    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)
