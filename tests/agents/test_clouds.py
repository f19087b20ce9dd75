"""What Bedrock and Vertex want besides a key; what all clients share is in test_clients."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agents.clients.clouds import BedrockClient, VertexClient
from agents.clients.open import KeyMissing, open_client
from agents.clients.port import CallFailed

from . import bedrock_api, messages_api
from .dialects import tool
from .model_server import response, serve
from .sources import KERNEL
from .test_clients import REQUEST

ANSWER = tool("code", explanation="e", source=KERNEL)
SECRET = "aws-secret-0123456789"
VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
    "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_DEFAULT_REGION", "CLOUD_ML_REGION",
    "ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_APPLICATION_CREDENTIALS",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.anyio
async def test_a_request_to_bedrock_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    frames = bedrock_api.frames(*messages_api.message(ANSWER, stop="tool_use"))
    async with serve(frames) as server:
        client = BedrockClient(base_url=server.url, region="eu-west-1")
        reply = await client.send(REQUEST)
        await client.aclose()
    assert reply.tool_input == {"explanation": "e", "source": KERNEL}
    (got,) = server.got
    signed = got.headers["authorization"]
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/bedrock/aws4_request" in signed
    assert SECRET not in json.dumps([got.headers, reply.sent]) + repr(client)


@pytest.mark.anyio
async def test_bedrock_without_credentials_says_what_to_check() -> None:
    async with serve(response(500, b"")) as server:
        client = BedrockClient(base_url=server.url, region="eu-west-2")  # the SDK keeps a region's
        with pytest.raises(CallFailed, match="check your AWS credentials") as info:
            await client.send(REQUEST)
        await client.aclose()
    assert (info.value.error, info.value.retryable) == ("unauthorized", False)
    assert server.got == []


@pytest.mark.anyio
async def test_a_service_account_gets_a_token_and_asks_vertex(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    token = response(
        200, json.dumps({"access_token": "ya29.token", "expires_in": 3600}).encode(),
        content_type="application/json",
    )  # fmt: skip
    message = messages_api.events(*messages_api.message(ANSWER, stop="tool_use"))
    async with serve(token) as issuer, serve(message) as server:
        account = {
            "type": "service_account", "client_email": "a@b.iam", "private_key": key.decode(),
            "token_uri": f"{issuer.url}/token", "project_id": "p",
        }  # fmt: skip
        path = tmp_path / "account.json"
        await anyio.Path(path).write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        client = VertexClient(base_url=server.url, region="global", project="p")
        reply = await client.send(REQUEST)
        await client.aclose()
    assert reply.tool_input == {"explanation": "e", "source": KERNEL}
    assert server.got[0].headers["authorization"] == "Bearer ya29.token"
    assert len(issuer.got) == 1


@pytest.mark.anyio
async def test_vertex_without_credentials_says_what_to_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    client = VertexClient(base_url="http://127.0.0.1:9", region="global", project="p")
    with pytest.raises(CallFailed, match="check your Google credentials") as info:
        await client.send(REQUEST)
    await client.aclose()
    assert (info.value.error, info.value.retryable) == ("unauthorized", False)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("bedrock:m", "need a region: set AWS_REGION"),
        ("vertex:m", r"need a region: set CLOUD_ML_REGION, or --set clients\.vertex\.region="),
    ],
)
def test_what_is_missing_is_said_before_the_first_call(spec: str, says: str) -> None:
    with pytest.raises(KeyMissing, match=says):
        open_client(spec)


def test_the_region_of_an_aws_profile_is_taken(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile work]\nregion = ap-south-1\n")
    client, model = open_client("bedrock:us.anthropic.claude-x-v1:0", profile="work")
    assert model == "us.anthropic.claude-x-v1:0"
    assert isinstance(client, BedrockClient)
    with pytest.raises(KeyMissing, match="nobody"):
        open_client("bedrock:m", profile="nobody")


def test_an_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with pytest.raises(KeyMissing, match=r"pip install 'stark-engine\[bedrock\]'"):
        open_client("bedrock:m")
