"""Which clients there are. Imports nothing, so that a help text may ask."""

from __future__ import annotations

__all__ = ["FORMS", "PREFIXES"]

PREFIXES = {
    "anthropic": "MODEL", "anthropic-batch": "MODEL", "bedrock": "MODEL", "vertex": "MODEL",
    "openai": "MODEL", "mailbox": "DIR", "playbook": "FILE", "recorded": "LOG",
}  # fmt: skip
"""With what stands behind them."""

_forms = [f"{prefix}:{what}" for prefix, what in PREFIXES.items()]
FORMS = f"{', '.join(_forms[:-1])} or {_forms[-1]}"
"""How a model is named, for people."""
