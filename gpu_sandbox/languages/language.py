"""What the sandbox needs of a language, or of a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath

import msgspec


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """How ``engine doctor`` tries a language on a GPU, in a process of its own.

    The last line that ``script`` prints is shown. ``lost`` is what does not work without the
    language, ``install`` how to get it, and ``repair`` what to do where the script fails.
    """

    script: str
    lost: str
    install: str
    repair: str


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """What does not apply is left out.

    ``devices``: the kinds of devices that its kernels run on.

    Sources. ``packages``: importing one of them shows that a source uses the language.
    ``has_kernel_decorators``: its kernels are functions under decorators of those packages.
    ``builders``: what else makes a kernel, by the last name or the last two of its dotted path.
    ``compiles_when_called``: it compiles at a kernel's first call, not when the file is imported.

    Compilers. ``cache_folders``: environment variable → folder below a candidate's home.
    ``settings``: other variables. ``cache_keys``: functions without arguments that take long to
    name what is cached, and remember it; the first one that exists will do.

    Caches that are laid out in another home. ``bound_to_home``: how paths of files begin that are
    of no use there. ``relocate``: pattern of names → function of a file's text and new folder
    that returns the new text; a text that it raises for stays as it is.
    """

    name: str
    devices: tuple[str, ...] = ("cuda",)
    packages: tuple[str, ...] = ()
    has_kernel_decorators: bool = False
    builders: tuple[str, ...] = ()
    compiles_when_called: bool = False
    cache_folders: Mapping[str, str] = {}
    settings: Mapping[str, str] = {}
    cache_keys: tuple[str, ...] = ()
    bound_to_home: tuple[str, ...] = ()
    relocate: Mapping[str, Callable[[str, PurePath], str]] = {}
    trial: Trial | None = None
