"""The Messages API on Amazon Bedrock and Google Vertex AI, through the SDK's own clients.

Credentials are found as each cloud's tools find them (profiles, roles, service accounts,
``AWS_BEARER_TOKEN_BEDROCK``); none of them is ever shown. What differs from Anthropic's own
API is where a request goes, how it is signed, and on Bedrock the framing of the stream.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from agents.clients.anthropic import AnthropicClient
from agents.clients.failures import shown
from agents.clients.port import CallFailed, CapabilityMissing, KeyMissing

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["BedrockClient", "VertexClient"]

_BEARER = "AWS_BEARER_TOKEN_BEDROCK"
_AWS_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_VERTEX_REGION, _VERTEX_PROJECT = "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID"


class BedrockClient(AnthropicClient):
    """``model`` is Bedrock's id or an inference profile's, such as
    ``us.anthropic.claude-opus-4-6-v1``. ``region`` and ``profile`` default to what the
    environment says. Raises ``KeyMissing``."""

    hint = f"check your AWS credentials or {_BEARER}, the region, and access to the model"

    def __init__(
        self, *, base_url: str | None = None, region: str | None = None, profile: str | None = None
    ) -> None:
        _require("botocore", "bedrock", "boto3 and botocore")
        super().__init__(api_key=_environment(_BEARER))
        self.base_url = base_url or _environment("ANTHROPIC_BEDROCK_BASE_URL") or None
        self._profile = profile or None
        self._region = region or next(filter(None, map(_environment, _REGIONS)), None)
        if self._region is None:
            self._region = _region_of(self._profile)
        if self._region is None:
            raise KeyMissing(
                "bedrock models need a region: set AWS_REGION, --set clients.bedrock.region=…,"
                " or a region in your AWS profile"
            )

    @property
    def _secrets(self) -> tuple[str, ...]:
        return *super()._secrets, *map(_environment, _AWS_SECRETS)

    def _new_sdk(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropicBedrock

        sdk = AsyncAnthropicBedrock(
            aws_region=self._region,
            aws_profile=None if self._api_key else self._profile,
            base_url=self.base_url,
            max_retries=0,
            http_client=self._http(
                self.base_url or f"https://bedrock-runtime.{self._region}.amazonaws.com"
            ),
        )
        return cast("AsyncAnthropic", sdk)  # the same resources

    async def _chunks(self, stream: Any) -> AsyncIterator[bytes]:
        """AWS frames each event in its own way. Put back into lines, so that what is in a
        frame is read, and judged, like what comes from elsewhere."""
        from botocore.eventstream import EventStreamBuffer, ParserError

        frames = EventStreamBuffer()
        async for chunk in super()._chunks(stream):
            try:
                frames.add_data(chunk)
                events = [_event_in(frame) for frame in frames]
            except (ParserError, ValueError, LookupError, TypeError):
                events = [b"{what is no event"]  # for the reader to end on: not raised in here
            for event in events:
                yield b"data:" + event + b"\n\n"

    def _failure(
        self, error: Exception, body: dict[str, Any]
    ) -> CallFailed | CapabilityMissing | None:
        from botocore.exceptions import BotoCoreError

        # The SDK's own word for no credentials is a RuntimeError.
        if isinstance(error, BotoCoreError | RuntimeError) and "redential" in str(error):
            return CallFailed(
                "unauthorized", f"{shown(str(error), self._secrets)} ({self.hint})", retryable=False
            )
        if isinstance(error, BotoCoreError):
            return CallFailed("connection", shown(str(error), self._secrets), retryable=True)
        return super()._failure(error, body)


class VertexClient(AnthropicClient):
    """``model`` is Vertex's id, such as ``claude-opus-4-6``. ``region`` and ``project`` default
    to what the environment says; ``access_token`` stands in for the application default
    credentials. Raises ``KeyMissing``."""

    hint = "check your Google credentials, the project, the region, and access to the model"

    def __init__(
        self,
        *,
        base_url: str | None = None,
        region: str | None = None,
        project: str | None = None,
        access_token: str | None = None,
    ) -> None:
        _require("google.auth", "vertex", "google-auth")
        super().__init__(api_key=access_token or "")
        self.base_url = base_url or _environment("ANTHROPIC_VERTEX_BASE_URL") or None
        self._region = region or _environment(_VERTEX_REGION)
        self._project = project or _environment(_VERTEX_PROJECT)
        for value, what, variable in (
            (self._region, "region", _VERTEX_REGION),
            (self._project, "project", _VERTEX_PROJECT),
        ):
            if not value:
                raise KeyMissing(
                    f"vertex models need a {what}: set {variable}, or --set clients.vertex.{what}=…"
                )

    def _new_sdk(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropicVertex

        sdk = AsyncAnthropicVertex(
            region=self._region,
            project_id=self._project,
            access_token=self._api_key or None,
            base_url=self.base_url,
            max_retries=0,
            http_client=self._http(
                self.base_url or f"https://{self._region}-aiplatform.googleapis.com"
            ),
        )
        return cast("AsyncAnthropic", sdk)  # the same resources

    def _failure(
        self, error: Exception, body: dict[str, Any]
    ) -> CallFailed | CapabilityMissing | None:
        from google.auth.exceptions import GoogleAuthError, TransportError

        if isinstance(error, TransportError):
            return CallFailed("connection", shown(str(error), self._secrets), retryable=True)
        if isinstance(error, GoogleAuthError):
            return CallFailed(
                "unauthorized", f"{shown(str(error), self._secrets)} ({self.hint})", retryable=False
            )
        return super()._failure(error, body)


def _event_in(frame: Any) -> bytes:
    """The API's event in a frame: one of its own, or an exception as its error."""
    if frame.headers.get(":message-type") == "event":
        return base64.b64decode(json.loads(frame.payload)["bytes"]).replace(b"\n", b" ")
    kind = frame.headers.get(":exception-type") or frame.headers.get(":error-code") or ""
    told = frame.payload.decode("utf-8", "replace") or frame.headers.get(":error-message", "")
    with suppress(ValueError, AttributeError):
        told = json.loads(told).get("message", told)
    error = {"type": "error", "error": {"type": kind, "message": told}}
    return json.dumps(error).encode()


def _environment(name: str) -> str:
    return os.environ.get(name, "").strip()


def _region_of(profile: str | None) -> str | None:
    import boto3
    from botocore.exceptions import ProfileNotFound

    try:
        region: str | None = boto3.Session(profile_name=profile).region_name
    except ProfileNotFound as error:
        raise KeyMissing(f"bedrock: {error}") from None
    return region


def _require(module: str, extra: str, what: str) -> None:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # of a package above it
        found = None
    if found is None:
        raise KeyMissing(
            f"{extra} models need {what}, which are not installed: pip install"
            f" 'stark-engine[{extra}]'"
        )
