"""Code that comes with a model's files: run only where the user says so, and only from these very files."""

from collections.abc import Iterator, Mapping, Sequence

from store.errors import EngineFailed

# transformers imports all such code below it
_PACKAGE = "transformers_modules"


def is_refused(error: BaseException) -> bool:
    """Tell whether transformers refused to run code of a model: it names the argument that would allow it."""
    return "trust_remote_code" in str(error)


def needs_code(model: str) -> EngineFailed:
    """Return the refusal of a model that does not work without code of its own."""
    return EngineFailed(
        f"model {model} needs code that comes with its files, which is not run unasked: read it, for it may "
        "do whatever your account may do, then pass --trust-remote-code"
    )


def is_run(*parts: object) -> bool:
    """Tell whether the class of a configuration, model or tokenizer came with a model's files."""
    return any(type(part).__module__.partition(".")[0] == _PACKAGE for part in parts)


def require_own(model: str, auto_map: object) -> None:
    """Refuse code that a model takes from another repository.

    Parameters
    ----------
    auto_map
        Of a configuration: classes by their role, each as ``module.Class`` or ``repository--module.Class``.

    Raises
    ------
    EngineFailed
        If any of it lies elsewhere: no revision of the model says which state of that code is meant.
    """
    for reference in _references(auto_map):
        repository, dashes, _ = reference.partition("--")
        if dashes and repository != model:
            raise EngineFailed(
                f"model {model} takes code from {repository}, which no revision of the model fixes: expected "
                "the code beside the weights; make a folder of both, name the code there, and use that"
            )


def _references(auto_map: object) -> Iterator[str]:
    if isinstance(auto_map, str):
        yield auto_map
    elif isinstance(auto_map, Mapping):
        yield from _references(list(auto_map.values()))
    elif isinstance(auto_map, Sequence):
        for part in auto_map:
            yield from _references(part)
