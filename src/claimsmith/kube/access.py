"""The plain ways to an API server that need no HTTP library: TLS, and a token, a token file or a client certificate.

Everything else (commands that log in, proxies, passwords, impersonation) is left to `kube.configured`.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

__all__ = ["SERVICE_ACCOUNT_FOLDER", "Access", "TlsFiles", "TokenFile", "find_access", "find_pod_access"]

SERVICE_ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token, the certificate of the API server and its namespace.

Source: plugin/pkg/admission/serviceaccount of kubernetes v1.37.2.
"""
_PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A way to an API server.

    Args:
        url: `http://…` or `https://…`.
        namespace: Namespace of the context.
        tls: Gives how the server is checked, with the client's certificate if it has one; another object when the
            certificates have changed. None for http.
        server_name: Name in the server's certificate when it is not the one in the address.
        token: Gives the bearer token, which may change; None without one.
    """

    url: str
    namespace: str = "default"
    tls: Callable[[], ssl.SSLContext] | None = None
    server_name: str = ""
    token: Callable[[], str] | None = None


class TokenFile:
    """A token in a file that the kubelet replaces before the token expires.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._token = ""

    def __call__(self) -> str:
        """Return the token as the file has it now; the last one while it can't be read."""
        try:
            found = self._path.stat()
            if (stamp := (found.st_ino, found.st_mtime_ns)) != self._seen:
                self._token, self._seen = self._path.read_text(encoding="ascii").strip(), stamp
        except (OSError, UnicodeDecodeError):
            return self._token
        return self._token


class TlsFiles:
    """Certificates in files that are replaced before they expire, as the kubelet does with its own and with pods'.

    Args:
        build: Reads the files.
        files: The files.

    Raises:
        OSError, ValueError: They can't be used now.
    """

    def __init__(self, build: Callable[[], ssl.SSLContext], files: Iterable[Path]) -> None:
        self._build, self._files = build, tuple(files)
        self._seen = self._find_stamps()
        self._context = build()

    def __call__(self) -> ssl.SSLContext:
        """Return what the files say now; the last one while they can't be used, as in the middle of a change."""
        found = self._find_stamps()
        if found is not None and found != self._seen:
            try:
                self._context = self._build()
            except (OSError, ValueError):
                return self._context
            self._seen = found
        return self._context

    def _find_stamps(self) -> list[tuple[int, int]] | None:
        """Return what tells the files from others of these names; None while one is missing."""
        try:
            return [(found.st_ino, found.st_mtime_ns) for found in map(Path.stat, self._files)]
        except OSError:
            return None


class _Cluster(msgspec.Struct, rename="kebab"):
    """A cluster in a kubeconfig."""

    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    disable_compression: bool = False
    extensions: Any = None


class _User(msgspec.Struct, rename="kebab"):
    """A user in a kubeconfig."""

    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    extensions: Any = None


def find_access(
    path: Path, *, context: str | None = None, environment: Mapping[str, str] = os.environ
) -> Access | None:
    """Return what a context of a kubeconfig describes; None when it is not plain, or not as it must be.

    Args:
        path: The file.
        context: Name of the context; None for the current one.
        environment: A proxy in it is not plain.
    """
    if _has_proxy(environment):
        return None
    try:
        config = yaml.load(path.expanduser().read_text(encoding="utf-8"), Loader=_loader())
        chosen = _named(config["contexts"], "context", context or config["current-context"])
        cluster = _plain(_named(config["clusters"], "cluster", chosen["cluster"]), _Cluster)
        user = _plain(_named(config["users"], "user", chosen["user"]) if chosen.get("user") else {}, _User)
        return _build(cluster, user, folder=path.expanduser().parent, namespace=chosen.get("namespace") or "default")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError, msgspec.ValidationError):
        return None


def find_pod_access(
    folder: Path = SERVICE_ACCOUNT_FOLDER, *, environment: Mapping[str, str] = os.environ
) -> Access | None:
    """Return what the service account of this pod describes; None outside of a pod, or when there is a proxy."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    if _has_proxy(environment) or not host or not port:
        return None
    try:
        authority = folder / "ca.crt"
        tls = TlsFiles(lambda: ssl.create_default_context(cafile=str(authority)), [authority])
        namespace = (folder / "namespace").read_text(encoding="utf-8").strip()
        if not (folder / "token").is_file():
            return None
    except (OSError, ValueError):
        return None
    address = f"[{host}]" if ":" in host else host
    return Access(url=f"https://{address}:{port}", namespace=namespace, tls=tls, token=TokenFile(folder / "token"))


def _has_proxy(environment: Mapping[str, str]) -> bool:
    return any(environment.get(name) for name in _PROXIES)


def _loader() -> type[Any]:
    """Return PyYAML's loader, the one in C where it is built."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _named(items: Any, key: str, name: str) -> dict[str, Any]:
    """Return what stands under `key` in the item of a name."""
    found: dict[str, Any] = {item["name"]: item for item in items}[name][key]
    return found


def _plain(value: dict[str, Any], into: type[Any]) -> Any:
    """Return a part of a kubeconfig; what we don't know makes it not plain.

    Raises:
        KeyError: It has a field that is not plain.
    """
    known = {field.encode_name for field in msgspec.structs.fields(into)}
    if unknown := value.keys() - known:
        raise KeyError(*unknown)
    return msgspec.convert(value, into)


def _build(cluster: _Cluster, user: _User, *, folder: Path, namespace: str) -> Access | None:
    if not cluster.server.startswith(("http://", "https://")):
        return None
    is_tls = cluster.server.startswith("https://")
    token: Callable[[], str] | None = None
    if user.token_file:
        token = TokenFile(folder / user.token_file)
    elif user.token:
        token = lambda fixed=user.token: fixed  # noqa: E731 - a name would say no more
    return Access(
        url=cluster.server,
        namespace=namespace,
        tls=TlsFiles(lambda: _build_tls(cluster, user, folder), _list_files(cluster, user, folder)) if is_tls else None,
        server_name=cluster.tls_server_name or "",
        token=token,
    )


def _list_files(cluster: _Cluster, user: _User, folder: Path) -> list[Path]:
    """Return the files that certificates are read from; what is embedded needs none."""
    sources = (
        (cluster.certificate_authority_data, cluster.certificate_authority),
        (user.client_certificate_data, user.client_certificate),
        (user.client_key_data, user.client_key),
    )
    return [folder / name for data, name in sources if name and not data]


def _build_tls(cluster: _Cluster, user: _User, folder: Path) -> ssl.SSLContext:
    if cluster.certificate_authority_data:
        tls = ssl.create_default_context(cadata=_decode(cluster.certificate_authority_data).decode())
    elif cluster.certificate_authority:
        tls = ssl.create_default_context(cafile=str(folder / cluster.certificate_authority))
    else:
        tls = ssl.create_default_context()
    if cluster.insecure_skip_tls_verify:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if user.client_certificate_data or user.client_certificate:
        _load_certificate(tls, user, folder)
    return tls


def _load_certificate(tls: ssl.SSLContext, user: _User, folder: Path) -> None:
    """Give a context the client's certificate; OpenSSL reads files alone, so embedded data goes through one."""
    with tempfile.TemporaryDirectory(prefix="claimsmith-") as private:
        names: list[str] = []
        for data, name in (
            (user.client_certificate_data, user.client_certificate),
            (user.client_key_data, user.client_key),
        ):
            file = folder / (name or "")
            if data:
                file = Path(private) / str(len(names))
                file.write_bytes(_decode(data))
            names.append(str(file))
        tls.load_cert_chain(*names)


def _decode(data: str) -> bytes:
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
