"""Names that a user types."""

from collections.abc import Iterable
from difflib import get_close_matches

from store.errors import WrongUsage


def require_known(kind: str, names: Iterable[str], known: Iterable[str], otherwise: str) -> None:
    """Refuse a name that is not known, and say which ones are close to it.

    Parameters
    ----------
    kind
        What the names are of, such as ``source``.
    otherwise
        What to say if no known name is close.

    Raises
    ------
    WrongUsage
        For the first name that is not known.
    """
    choices = list(known)
    for name in names:
        if name not in choices:
            close = get_close_matches(name, choices, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else otherwise
            raise WrongUsage(f"{name}: no such {kind}; {hint}")
