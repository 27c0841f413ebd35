"""Names of fields in JSON (`case="camel"`, `rename`)."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from postroom.events.codec.scalars import SCALARS
from postroom.events.codec.unfit import Unfit

Case: TypeAlias = Literal["snake", "camel"]

_INNER_UNDERSCORES = re.compile(r"(?<=[^_])_+([^_])")


def json_name(field: str, case: Case) -> str:
    """The name of a field in JSON: `account_id` is `accountId` in camel case."""
    if case == "snake":
        return field
    return _INNER_UNDERSCORES.sub(lambda match: match[1].upper(), field)


def json_names(fields: Iterable[str], case: Case, rename: Mapping[str, str]) -> dict[str, str]:
    """The name of every field, no two the same."""
    owners: dict[str, str] = {}
    for field in fields:
        name = SCALARS[str].encode(rename.get(field, json_name(field, case)))
        if name in owners:
            problem = f"has the name {name!r} in JSON, and so has `{owners[name]}`"
            raise Unfit(problem, "Rename one of them.", (field,))
        owners[name] = field
    return {field: name for name, field in owners.items()}
