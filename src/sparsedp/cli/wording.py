"""Messages of the library in the language of the command line: where they say `step=`, the user
types `--step`.

Messages are written once, for Python. They are translated at the one place where they leave the
command line, from the options that the commands really have, so no message can be forgotten and no
missing option can be named.
"""

from __future__ import annotations

import re
from typing import Any

# Names that no message uses as an English word; the others are read as options only where the
# grammar shows it.
_NAMES = ("epsilon", "delta", "nonzero", "sensitivity", "step", "upper")
_SUBJECT = r"(?= (?:must|needs|is for) | \([^)]*\) must )"
_VALUE = r"'[^']*'|\w+"
# Names and text of the caller, which stay as they are.
_QUOTED = r"\"{3}.*?\"{3}|(?<!\w)'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""

_FUNCTIONS = {"release()": "sparsedp release", "count()": "sparsedp release"}
_ONLY_PYTHON = (", or pass labels=",)  # fixes that no command has, beside one that it has


def flags_of(command: Any) -> dict[str, str]:
    """The options of a command and of its subcommands: the Python name of each, and how to type it."""
    flags = {}
    for option in command.params:
        typed = [name for name in option.opts if name.startswith("--")]
        if typed:
            flags[option.name] = typed[0]
    for below in getattr(command, "commands", {}).values():
        flags |= flags_of(below)
    return flags


def language(commands: Any, invoked: str | None = None) -> dict[str, str]:
    """The options of all commands and all mechanisms, as they are typed for the command that was
    invoked.
    """
    from ..mechanisms import MECHANISMS

    flags = {
        name: f"--option {name}"
        for mechanism in MECHANISMS.values()
        for name in (option.name for option in mechanism.options)
    } | flags_of(commands)
    own = {} if invoked is None else flags_of(commands.commands[invoked])
    if "max_keys_per_user" in own and "sensitivity" not in own:  # sensitivity is their product
        flags["sensitivity"] = "(--max-keys-per-user × --max-per-key)"
    return flags


def translated(message: str, flags: dict[str, str], parameters: bool = True) -> str:
    """The message with options instead of arguments; ambiguous words only if it is about
    `parameters`.
    """
    names = "|".join(sorted(map(re.escape, flags), key=len, reverse=True))
    called = re.compile(
        rf"(?P<quoted>{_QUOTED})"
        rf"|(?<![\w./\\-])(?P<name>{names})(?:=(?P<value>{_VALUE})?| = (?P<spaced>[\w.+-]+)|(?P<subject>{_SUBJECT})"
        r"|(?![\w=/\\-]|\.\w))"
    )

    def typed(found: re.Match[str]) -> str:
        name = found["name"]
        if found["quoted"] is not None:
            return found[0]
        flag = flags[name]
        value = (found["value"] or found["spaced"] or "").strip("'")
        if found[0] != name:  # name=, name='value', name = value
            return flag if value in ("", "True") else f"{flag} {value}"
        # An argument that is the subject of its sentence comes first: "domain must be …".
        subject = found["subject"] is not None and re.search(r"(^|[;:] )$", message[: found.start()])
        certain = "_" in name or (parameters and (name in _NAMES or subject))
        return flag if certain else name

    text = called.sub(typed, message)
    for fix in _ONLY_PYTHON:
        text = text.replace(fix, "")
    for function, command in _FUNCTIONS.items():
        text = text.replace(function, command)
    return text
