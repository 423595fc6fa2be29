"""CEL over devices: whether a selector of a claim or device class takes a device. Pure.

Kubernetes' additions to the language that selectors of devices use are declared here: quantities and
versions with their comparisons. A quantity is a number of thousandths and a version one that sorts as
versions do, so both compare with `==` and `<` as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tidewright.kube import quantities
from tidewright.kube.celfunctions import declaring

_DOMAIN = re.compile(r"""\[\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)')\s*\]""")
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?(?:\+.*)?")
LISTS = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}
"""Attributes that are lists, and what each of their values is."""
_PART = 100_000
"""Versions as numbers: parts of up to five digits, and a last digit that puts pre-releases before their release."""


class SelectorFailed(ValueError):
    """A selector that does not compile, or fails on a device."""


def version_number(text: str) -> int:
    """A semantic version as a number that sorts as versions do.

    Raises:
        ValueError: it is none.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no semantic version, such as 1.2.3")
    major, minor, patch = (min(int(part), _PART - 1) for part in match.groups()[:3])
    return ((major * _PART + minor) * _PART + patch) * 2 + (match[4] is None)


def takes(expression: str, driver: str, device: Mapping[str, Any]) -> bool:
    """Whether an expression holds for a device (its fields as in a ResourceSlice).

    Raises:
        SelectorFailed: it does not compile, or asks for what the device does not have, or has in no form that can be read.
    """
    try:
        data = {
            "device": {
                "driver": driver,
                "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
                "attributes": _by_domain(expression, driver, device.get("attributes") or {}, _attribute),
                "capacity": _by_domain(expression, driver, device.get("capacity") or {}, _capacity),
            }
        }
        value = _compiled(expression).eval(data=data).plain_value()
    except (RuntimeError, ValueError, TypeError) as error:
        raise SelectorFailed(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    if not isinstance(value, bool):
        raise SelectorFailed(f"{expression!r} gives {value!r} and not true or false")
    return value


def _attribute(attribute: Mapping[str, Any]) -> Any:
    for several, single in LISTS.items():
        if several in attribute:
            return [_value(single, entry) for entry in attribute[several]]
        if single in attribute:
            return _value(single, attribute[single])
    return None


def _value(kind: str, value: Any) -> Any:
    return version_number(value) if kind == "version" else value


def _capacity(capacity: Mapping[str, Any]) -> int:
    return quantities.milli(capacity["value"])


def _by_domain(
    expression: str, driver: str, entries: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Any]
) -> dict[str, dict[str, Any]]:
    """Names by their domain, the driver's being the default; domains that are asked for and are not there are empty."""
    domains: dict[str, dict[str, Any]] = {a or b: {} for a, b in _DOMAIN.findall(expression)}
    domains.setdefault(driver, {})
    for name in sorted(entries):
        domain, _, short = name.rpartition("/")
        domains.setdefault(domain or driver, {})[short] = read(entries[name])
    return domains


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Any:
    try:
        return _environment().compile(expression)
    except (RuntimeError, ValueError) as error:
        raise SelectorFailed(f"{expression!r} does not compile: {error}") from error


@lru_cache(maxsize=1)
def _environment() -> Any:
    # Loaded by the first selector: clusters without such devices do without it.
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    integer, boolean, text, anything = cel.Type.INT, cel.Type.BOOL, cel.Type.STRING, cel.Type.DYN

    declare = declaring(cel, "device")
    functions = [
        declare("quantity", integer, [text], quantities.milli, member=False),
        declare("isQuantity", boolean, [text], _is(quantities.milli), member=False),
        declare("semver", integer, [text], version_number, member=False),
        declare("isSemver", boolean, [text], _is(version_number), member=False),
        declare("includes", boolean, [anything, anything], _includes),
        declare("compareTo", integer, [integer, integer], lambda a, b: (a > b) - (a < b)),
        declare("isGreaterThan", boolean, [integer, integer], lambda a, b: a > b),
        declare("isLessThan", boolean, [integer, integer], lambda a, b: a < b),
        declare("major", integer, [integer], lambda a: a // 2 // _PART // _PART),
        declare("minor", integer, [integer], lambda a: a // 2 // _PART % _PART),
        declare("patch", integer, [integer], lambda a: a // 2 % _PART),
        declare("asInteger", integer, [integer], lambda a: a // 1000),
        declare("sign", integer, [integer], lambda a: (a > 0) - (a < 0)),
    ]
    return cel.NewEnv(
        variables={"device": cel.Type.DYN},
        extensions=[
            ext_strings.ExtStrings(),
            ext_optional.ExtOptional(),
            ext_bindings.ExtBindings(),
            cel.CelExtension("kubernetes.devices", functions),
        ],
    )


def _includes(target: Any, value: Any) -> bool:
    """Whether a list has a value; one value counts as a list of it. True and 1 are not the same."""
    return any(
        type(entry) is type(value) and entry == value
        for entry in (target if isinstance(target, list | tuple) else [target])
    )


def _is(read: Callable[[str], int]) -> Callable[[str], bool]:
    def readable(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return readable
