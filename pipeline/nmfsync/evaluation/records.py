"""Records read from JSON: every value is checked against the type of its field."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from nmfsync.errors import NmfsyncError, shown

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def record_from(kind: Any, content: Any, place: str = "") -> Any:
    """Turn what JSON holds into a value of a type.

    Parameters
    ----------
    kind : type
        A dataclass, bool, int, float, str or Any, or made of these by list, tuple, dict and
        ``| None``. A dataclass takes its fields from a dict: those with a default may be missing,
        and entries that are no fields are ignored.
    content : object
        What `json.loads` returns.
    place : str
        Where it stands, for messages.

    Returns
    -------
    object
        A value of `kind`. All numbers are finite.

    Raises
    ------
    NmfsyncError
        If the content does not fit; the message begins with the place.
    """
    if kind is Any:
        return content
    if is_dataclass(kind):
        return _dataclass_from(kind, content, place)
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _optional_from(inside, content, place)
    if origin is None:
        return _plain_from(kind, content, place)
    if issubclass(origin, Mapping):
        items = _checked(content, dict, "a group of named values", place).items()
        return {name: record_from(inside[1], value, _in(place, name)) for name, value in items}
    if origin is tuple and inside[-1] is not Ellipsis:
        return _tuple_from(inside, content, place)
    assert issubclass(origin, Sequence), kind
    values = _checked(content, list, "a list", place)
    return origin(
        record_from(inside[0], value, _in(place, n)) for n, value in enumerate(values, start=1)
    )


def _dataclass_from(kind: Any, content: Any, place: str) -> Any:
    content = _checked(content, dict, "a group of named values", place)
    values = {}
    for name, (inside, needed) in _fields_of(kind).items():
        if name in content:
            values[name] = record_from(inside, content[name], _in(place, name))
        elif needed:
            raise NmfsyncError(f"{_in(place, name)} is missing")
    return kind(**values)


@cache
def _fields_of(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the type of every field, and whether it has no default."""
    types = get_type_hints(kind)
    return {
        f.name: (types[f.name], f.default is MISSING and f.default_factory is MISSING)
        for f in fields(kind)
        if f.init
    }


def _optional_from(kinds: tuple[Any, ...], content: Any, place: str) -> Any:
    if content is None and NoneType in kinds:
        return None
    others = [kind for kind in kinds if kind is not NoneType]
    # Of int | str and the like, the type that the content has.
    fitting = next((kind for kind in others if isinstance(content, get_origin(kind) or kind)), None)
    return record_from(fitting or others[0], content, place)


def _tuple_from(kinds: tuple[Any, ...], content: Any, place: str) -> tuple[Any, ...]:
    values = _checked(content, list, "a list", place)
    if len(values) != len(kinds):
        raise NmfsyncError(f"{place} must be a list of {len(kinds)}, got {len(values)}")
    pairs = enumerate(zip(kinds, values, strict=True), start=1)
    return tuple(record_from(kind, value, _in(place, n)) for n, (kind, value) in pairs)


def _plain_from(kind: Any, content: Any, place: str) -> Any:
    accepted = (int, float) if kind is float else kind
    if isinstance(content, bool) and kind is not bool:  # which is an int in Python
        accepted = ()
    content = _checked(content, accepted, _WORDS[kind], place)
    most = {int: 2**63, float: sys.float_info.max}.get(kind)
    if most is not None and not abs(content) <= most:  # NaN is not
        raise NmfsyncError(f"{place} must be a finite number, got {_quoted(content)}")
    return float(content) if kind is float else content


def _checked(content: Any, kind: Any, words: str, place: str) -> Any:
    if not isinstance(content, kind):
        raise NmfsyncError(f"{place or 'the content'} must be {words}, got {_quoted(content)}")
    return content


def _quoted(content: Any) -> str:
    """Return a value as a message may quote it; a huge number has too many digits to write."""
    huge = isinstance(content, int) and content.bit_length() > 200
    return "a huge number" if huge else shown(repr(content), 40)


def _in(place: str, name: object) -> str:
    inner = shown(name, 40)
    return f"{place}: {inner}" if place else inner
