"""Which proxy a server is asked through, by the environment."""

from __future__ import annotations

import pytest

from agents.clients.openai import OpenAIClient
from agents.clients.port import CallFailed
from agents.clients.proxies import proxy_for

from .completions_api import chunks, completion
from .model_server import serve
from .test_clients import REQUEST

PROXY = "http://proxy.example:3128"
EXCLUDED = [
    ("http://127.0.0.1:8000/v1", "127.0.0.0/8"),
    ("http://localhost:8000/v1", "127.0.0.0/8"),
    ("http://10.1.2.3/v1", "example.com, 10.0.0.0/8"),
    ("http://10.1.2.3/v1", "10.1.2.3"),
    ("http://[fd00::1]:8000/v1", "fd00::/8"),
    ("http://[::1]:8000/v1", "[::1]"),
    ("http://gpu.lab.example/v1", ".lab.example"),
    ("http://gpu.lab.example/v1", "*.lab.example"),
    ("http://gpu.lab.example:8000/v1", "gpu.lab.example:8000"),
    ("http://gpu.lab.example/v1", "*"),
]
ASKED_THROUGH = [
    ("http://127.0.0.1:8000/v1", "10.0.0.0/8,fd00::/8"),
    ("http://mylab.example/v1", "lab.example"),
    ("http://gpu.lab.example:8000/v1", "gpu.lab.example:9000"),
    ("http://gpu.lab.example/v1", ""),
]


@pytest.fixture(autouse=True)
def _no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(("url", "excluded"), EXCLUDED)
def test_what_no_proxy_covers(url: str, excluded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", excluded)
    assert proxy_for(url) is None


@pytest.mark.parametrize(("url", "excluded"), ASKED_THROUGH)
def test_what_it_does_not(url: str, excluded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", excluded)
    assert proxy_for(url) == PROXY


def test_the_scheme_says_which_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://all.example:1080")
    monkeypatch.setenv("https_proxy", "secure.example:3128")
    assert proxy_for("https://api.example/v1") == "http://secure.example:3128"
    assert proxy_for("http://api.example/v1") == "socks5://all.example:1080"


def test_a_range_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/99")
    with pytest.raises(CallFailed, match=r"NO_PROXY holds '10\.0\.0\.0/99'"):
        proxy_for("http://127.0.0.1/v1")


@pytest.mark.parametrize("proxy", ["ftp://me:geheim@host:1", "http://me:geheim", "http://"])
def test_a_proxy_that_is_none_is_named(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(CallFailed, match="names in HTTP_PROXY is no use") as info:
        proxy_for("http://127.0.0.1/v1")
    assert "geheim" not in str(info.value)


@pytest.mark.anyio
async def test_a_local_server_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "fd00::/8,127.0.0.0/8")
    async with serve(chunks(*completion("Hello"))) as server:
        client = OpenAIClient(base_url=server.url)
        assert (await client.send(REQUEST)).text == "Hello"
        await client.aclose()
