"""The product's zygote, with some defences switched off in all of its forks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.zygote import main as product
from tests.attacks.defences.patching import Patch, apply, patched
from tests.attacks.defences.table import DEFENCES, patches_of
from tests.attacks.judging import Sandboxes
from tests.attacks.table import TWIN

__all__ = ["defenceless", "main"]


def main(*, off: Sequence[str], **arguments: Any) -> None:
    """The survey of isolation layers, a fork that was made before, sees nothing of it."""
    load = product._load

    def load_and_patch() -> None:
        load()
        apply([patch for patch in patches_of(off) if not patch.in_engine])

    product._load = load_and_patch
    product.main(**arguments)


@asynccontextmanager
async def defenceless(
    names: Sequence[str], limits: Collection[Limits], device: str, cache: Path
) -> AsyncIterator[Sandboxes]:
    """Sandboxes without these defences, by the limits of what is tried, and by a twin's."""
    without = tuple(layer for name in names for layer in DEFENCES[name].without)
    with _switched_off(names):
        async with AsyncExitStack() as stack:
            yield {
                (device, each): await stack.enter_async_context(
                    LocalSandbox(
                        (device,),
                        limits=each,
                        cache=cache,
                        require_isolation="C",
                        without_layers=without,
                    )
                )
                for each in {*limits, TWIN}
            }


@contextmanager
def _switched_off(names: Sequence[str]) -> Iterator[None]:
    """Sandboxes that are opened meanwhile do without these defences."""

    def other_entry(spec: Any) -> Any:
        def start(**fields: Any) -> Any:
            assert fields["module"] == product.__name__
            arguments = {**fields["arguments"], "off": list(names)}
            return spec(**{**fields, "module": __name__, "arguments": arguments})

        return start

    entry = Patch("gpu_sandbox.supervise.zygote_client:Spec", other_entry, in_engine=True)
    with patched([entry, *(patch for patch in patches_of(names) if patch.in_engine)]):
        yield
