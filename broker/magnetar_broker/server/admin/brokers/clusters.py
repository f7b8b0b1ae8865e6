"""Clusters: stored and shown as in Pulsar.  Nothing is sent to other clusters."""

import re
from typing import Any
from urllib.parse import urlsplit

from magnetar_broker.names import stored_objects as parts
from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.context import AdminContext, http_url, serving
from magnetar_broker.server.http.messages import (
    Refused,
    Request,
    Response,
    json_response,
    text_response,
)

TEXTS = (
    "serviceUrl",
    "serviceUrlTls",
    "brokerServiceUrl",
    "brokerServiceUrlTls",
    "proxyServiceUrl",
    "proxyProtocol",
    "authenticationPlugin",
    "brokerClientTrustCertsFilePath",
    "brokerClientKeyFilePath",
    "brokerClientCertificateFilePath",
    "brokerClientSslFactoryPlugin",
    "brokerClientTlsKeyStoreType",
    "brokerClientTlsKeyStore",
    "brokerClientTlsTrustStoreType",
    "brokerClientTlsTrustStore",
    "listenerName",
)
SECRETS = (
    "authenticationParameters",
    "brokerClientSslFactoryPluginParams",
    "brokerClientTlsKeyStorePassword",
    "brokerClientTlsTrustStorePassword",
)
"""The members that are not stored: the broker logs in to no other cluster."""
FLAGS = (
    "brokerClientTlsEnabled",
    "tlsAllowInsecureConnection",
    "brokerClientTlsEnabledWithKeyStore",
)
SCHEMES = {
    "serviceUrl": ("http",),
    "serviceUrlTls": ("https",),
    "brokerServiceUrl": ("pulsar",),
    "brokerServiceUrlTls": ("pulsar+ssl",),
}
NAME = re.compile(r"[-=:.\w]+", re.ASCII)


# The clusters ------------------------------------------------------------------------------


async def clusters(context: AdminContext, request: Request) -> Response:
    """Return the names of all clusters."""
    return json_response(await serving(context).clusters.names())


async def cluster(context: AdminContext, request: Request) -> Response:
    """Return the addresses of a cluster, and how its brokers are reached."""
    directory, name = serving(context), name_of(request)
    return json_response(await _data(directory, request, name))


async def create(context: AdminContext, request: Request) -> Response:
    """Register another cluster."""
    directory, name = serving(context), name_of(request)
    if not NAME.fullmatch(name):
        raise Refused(412, f"cluster name {name!r}: expected letters, digits and -=:._")
    await directory.clusters.create(name, {parts.DATA: _data_in(request)})
    return _stored(request)


async def change(context: AdminContext, request: Request) -> Response:
    """Replace the data of a cluster."""
    directory, name = serving(context), name_of(request)
    data = _data_in(request)
    await required(directory, name)
    if "peerClusterNames" in data:
        await _check_peers(directory, name, data["peerClusterNames"])
    if not await directory.clusters.change_part(name, parts.DATA, lambda _: data):
        raise _no_cluster(name)
    return _stored(request)


def _stored(request: Request) -> Response:
    """Return the answer to data that are stored, with a warning about the members that are not."""
    left_out = ", ".join(name for name in SECRETS if request.json().get(name))
    if not left_out:
        return Response()
    why = "the broker logs in at no other cluster"
    return Response(headers={"Warning": f'299 - "{left_out} not stored: {why}"'})


async def delete(context: AdminContext, request: Request) -> None:
    """Remove another cluster; 412 while a tenant may use it."""
    directory, name = serving(context), name_of(request)
    await required(directory, name)
    if name == directory.clusters.own:
        raise Refused(412, f"cluster {name} is this broker's own: it cannot be deleted")
    for tenant in await directory.tenants.names():
        if name in (await directory.tenants.get(tenant)).allowed_clusters:
            raise Refused(
                412, f"tenant {tenant} may use cluster {name}: change its allowedClusters first"
            )
    await directory.clusters.delete(name)


async def _data(directory: Directory, request: Request, name: str) -> dict[str, Any]:
    stored = await required(directory, name)
    data: dict[str, Any] = {**dict.fromkeys(FLAGS, False)}
    if name == directory.clusters.own and parts.DATA not in stored:
        url = directory.ownership.service_url
        tls = "Tls" if request.is_tls else ""
        broker_tls = "Tls" if url.startswith("pulsar+ssl:") else ""
        data |= {f"serviceUrl{tls}": http_url(request, url), f"brokerServiceUrl{broker_tls}": url}
    return {**data, **stored.get(parts.DATA, {})}


def _data_in(request: Request) -> dict[str, Any]:
    """Return the checked data of the body, without unknown, null, empty and secret members."""
    body = request.json_or_none()
    if not isinstance(body, dict):
        raise Refused(400, "the body: expected an object with serviceUrl and brokerServiceUrl")
    data: dict[str, Any] = {}
    for name in (*TEXTS, *FLAGS, *SECRETS):
        value, kind = body.get(name), bool if name in FLAGS else str
        # promise[without or value == ""]: an empty text of a cluster does not count
        if value is None or value == "":  # the Go client has "" for what it does not set
            continue
        if not isinstance(value, kind):
            found = type(value).__name__ if name in SECRETS else repr(value)
            raise Refused(400, f"{name} is {found}: expected a {kind.__name__}")
        if name not in SECRETS:
            data[name] = value
    for name, schemes in SCHEMES.items():
        if name in data:
            _check_url(name, data[name], schemes)
    peers = body.get("peerClusterNames")
    return data if peers is None else data | {"peerClusterNames": checked_names(peers)}


def _check_url(name: str, text: str, schemes: tuple[str, ...]) -> None:
    for url in text.split(","):
        try:
            found = urlsplit(url.strip())
            is_good = found.scheme in schemes and bool(found.netloc)
        except ValueError:
            is_good = False
        if not is_good:
            raise Refused(400, f"{name} is {text!r}: expected {schemes[0]}://HOST:PORT")


def checked_names(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Refused(400, "expected a list of names of clusters")
    return list(dict.fromkeys(value))


def name_of(request: Request) -> str:
    name = request.part("cluster")
    return name


async def required(directory: Directory, name: str) -> dict[str, Any]:
    """Return the data that are stored for a cluster; 404 if the cluster does not exist."""
    stored = await directory.clusters.get(name) if NAME.fullmatch(name) else None
    if stored is None:
        raise _no_cluster(name)
    return stored


def _no_cluster(name: str) -> Refused:
    return Refused(404, f"cluster {name} does not exist: create it with PUT /admin/v2/clusters")


# Peers and migration -----------------------------------------------------------------------


async def peers(context: AdminContext, request: Request) -> Response:
    """Return the peers of a cluster; an empty answer if it has none."""
    stored = await required(serving(context), name_of(request))
    names = stored.get(parts.DATA, {}).get("peerClusterNames")
    return json_response(names) if names else text_response("")


async def set_peers(context: AdminContext, request: Request) -> None:
    """Replace the peers of a cluster."""
    directory, name = serving(context), name_of(request)
    await required(directory, name)
    new = checked_names((request.json_or_none()) or [])
    await _check_peers(directory, name, new)

    def changed(data: dict[str, Any] | None) -> dict[str, Any]:
        others = {key: one for key, one in (data or {}).items() if key != "peerClusterNames"}
        return others | ({"peerClusterNames": new} if new else {})

    await directory.clusters.change_part(name, parts.DATA, changed)


async def _check_peers(directory: Directory, name: str, wanted: list[str]) -> None:
    known = await directory.clusters.names()
    for peer in wanted:
        if peer == name:
            raise Refused(412, f"{name} cannot be its own peer: name others")
        if peer not in known:
            raise Refused(412, f"peer {peer} does not exist: expected some of {', '.join(known)}")


async def migration(context: AdminContext, request: Request) -> Response:
    """Return whether a cluster moves, and where to."""
    stored = await required(serving(context), name_of(request))
    return json_response(stored.get(parts.MIGRATION, {"migrated": False}))


async def set_migration(context: AdminContext, request: Request) -> Response:
    """Store whether a cluster moves, and where to; clients are not told."""
    directory, name = serving(context), name_of(request)
    await required(directory, name)
    data = {key: one for key, one in _data_in(request).items() if key in SCHEMES}
    moved = {"migrated": request.flag("migrated"), "migratedClusterUrl": data}
    await directory.clusters.change_part(name, parts.MIGRATION, lambda _: moved)
    return Response(headers={"Warning": '299 - "clients are not sent to the other cluster"'})
