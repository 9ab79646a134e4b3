"""A database that is away."""

from typing import Any

from sqlalchemy.exc import OperationalError


def away(*arguments: Any) -> Any:
    """Use a database that is away: what replaces a function that uses one."""
    raise OperationalError("", {}, OSError("the database is away"))
