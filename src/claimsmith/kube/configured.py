"""The way to a cluster that a kubeconfig, or the inside of a pod, describes: lightkube reads it, logs in and sends."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import msgspec
import yaml
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError as LightkubeConfigError

from claimsmith.errors import KubeconfigError, UnreachableError
from claimsmith.kube.transport import Answer, Request

__all__ = ["ConfiguredTransport", "parse_in_cluster", "parse_kubeconfig"]


class ConfiguredTransport:
    """Requests through lightkube's HTTP client, with its TLS, login and proxy rules.

    Raises:
        KubeconfigError: The certificates or the way of logging in can't be used.
    """

    def __init__(self, config: SingleConfig) -> None:
        self.namespace: str = config.namespace
        self.server: str = str(config.cluster.server)
        try:
            self._client = client_adapter.AsyncClient(config, client_adapter.ConnectionParams())
        except (LightkubeConfigError, OSError, ValueError) as error:
            raise KubeconfigError(
                f"context {config.context_name!r}", f"found {error}", hint="correct the user or cluster it names"
            ) from error

    async def send(self, request: Request) -> Answer:
        """Return the answer, whatever its status.

        Raises:
            UnreachableError: There was no complete answer in time.
        """
        try:
            answer = await self._client.send(self._build(request))
        except (httpx2.HTTPError, LightkubeConfigError, OSError) as error:
            raise self._unreachable(request, error) from error
        return Answer(status=answer.status_code, headers=_lower(answer.headers), body=answer.content)

    async def stream(self, request: Request) -> AsyncGenerator[bytes | Answer, None]:
        """Yield the lines of a 200 answer as they come, or the whole answer if its status is another one.

        Raises:
            UnreachableError: The connection broke, or was silent for `timeout_s`.
        """
        try:
            answer = await self._client.send(self._build(request), stream=True)
            try:
                if answer.status_code != 200:
                    body = await answer.aread()
                    yield Answer(status=answer.status_code, headers=_lower(answer.headers), body=body)
                    return
                if request.on_open is not None:
                    request.on_open()
                async for line in answer.aiter_lines():
                    if line:
                        yield line.encode()
            finally:
                await answer.aclose()
        except (httpx2.HTTPError, LightkubeConfigError, OSError) as error:
            raise self._unreachable(request, error) from error

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    def _build(self, request: Request) -> httpx2.Request:
        headers = {"Accept": "application/json", "User-Agent": "claimsmith"}
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            headers["Content-Type"] = request.content_type
        return self._client.build_request(
            request.method, request.target, content=request.body or None, headers=headers, timeout=request.timeout_s
        )

    def _unreachable(self, request: Request, error: Exception) -> UnreachableError:
        path, found = request.target.partition("?")[0], str(error) or type(error).__name__
        return UnreachableError(
            f"{request.method} {path} at {self.server}: {found}, allowed a complete answer; "
            "see whether the address is right and the API server runs"
        )


def parse_kubeconfig(path: Path, *, context: str | None = None) -> SingleConfig:
    """Return one context of a kubeconfig; the current one without a name.

    Raises:
        KubeconfigError: The file can't be read, or does not describe the context.
    """
    try:
        config = KubeConfig.from_file(path).get(context)
    except (LightkubeConfigError, OSError) as error:
        raise KubeconfigError(str(path), f"found {error}", hint="name an existing file and context") from error
    except (KeyError, TypeError, AttributeError, yaml.YAMLError, msgspec.ValidationError) as error:
        found = f"found no kubeconfig ({type(error).__name__}: {error})"
        raise KubeconfigError(str(path), found, hint="correct the file") from error
    if config is None or not config.cluster.server:
        raise KubeconfigError(str(path), "found no server for the context", hint="set current-context and its cluster")
    return config


def parse_in_cluster() -> SingleConfig:
    """Return what a pod's service account describes.

    Raises:
        KubeconfigError: This process does not run in a pod with a service account.
    """
    try:
        config = KubeConfig.from_service_account().get()
    except (LightkubeConfigError, KeyError, OSError) as error:
        raise KubeconfigError(
            "service account of the pod", f"found {error}", hint="run inside a pod, or name a kubeconfig"
        ) from error
    if config is None:
        raise KubeconfigError("service account of the pod", "found no context", hint="name a kubeconfig")
    return config


def _lower(headers: httpx2.Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
