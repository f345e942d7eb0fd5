"""Words that the families share."""

from collections.abc import Sequence

from generate.learning.wording import listed

# invented, without meaning; none of them is a part of another, and none holds a label
NAMES = (
    "Bramo", "Celdu", "Dorvi", "Elpik", "Fustra", "Gomri", "Hulbo", "Izmur",
    "Jasko", "Kelvo", "Luptan", "Mirdo", "Nurbo", "Ostig", "Pazmi", "Quarno",
    "Rudni", "Sivlo", "Tarbek", "Umbri", "Vosken", "Wexla", "Yombri", "Zilpo",
)  # fmt: skip


def are(words: Sequence[str]) -> str:
    """Return words as the subject of a sentence: ``a and b are``."""
    return f"{listed(words)} {'is' if len(words) == 1 else 'are'}"
