"""The bundles of a namespace: listing, unloading, moving and splitting them."""

import re
from typing import Any
from urllib.parse import unquote_plus

from magnetar_broker.base.parallel import for_each
from magnetar_broker.base.periodic_jobs import PAUSE_EVERY
from magnetar_broker.names.directory import Directory
from magnetar_broker.placement.bundle_splits import (
    ALGORITHMS,
    POSITIONS,
    TOPICS,
    hashes_of_split,
    largest,
)
from magnetar_broker.placement.bundles import Bundles, hash_of
from magnetar_broker.server.admin.brokers.active_brokers import required_process
from magnetar_broker.server.admin.context import (
    AdminContext,
    existing_namespace,
    namespace_in,
    serving,
)
from magnetar_broker.server.admin.refusals import refusing_bundle
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import yield_turn

LARGEST, HOT = "LARGEST", "HOT"
"""The words that may stand for a bundle in the path of a split."""


RANGE = re.compile(r"0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}")
"""A bundle, by its first hash and the hash after its last."""


async def bundles(context: AdminContext, request: Request) -> Response:
    """Return the boundaries of a namespace's bundles."""
    directory, name = await namespace_in(context, request)
    return json_response(bundles_json(await directory.bundles.stored.of(name)))


def bundles_json(of_namespace: Bundles) -> dict[str, Any]:
    """Return the bundles of a namespace in the form of the REST API."""
    return {"boundaries": of_namespace.texts, "numBundles": len(of_namespace)}


# Unloading and moving -------------------------------------------------------------------


async def unload_namespace(context: AdminContext, request: Request) -> None:
    """Close all topics of a namespace; their clients reconnect by themselves."""
    directory, name = await namespace_in(context, request)
    await for_each(directory.runtime, directory.topic_host.loaded(name), directory.opening.unload)


async def unload(context: AdminContext, request: Request) -> None:
    """Close the topics of a bundle, whose clients reconnect; with a destination, move it there."""
    directory = serving(context)
    name, bundle = await existing_namespace(directory, request), request.part("bundle")
    destination = request.query.get("destinationBroker")
    with refusing_bundle():
        if destination is None:
            await directory.bundles.unload(name, bundle)
        else:
            process = required_process(directory, request, destination, missing_status=409)
            await directory.bundles.move(name, bundle, process)


async def delete(context: AdminContext, request: Request) -> None:
    """Delete the topics of a bundle: 409 if there are any, unless `force` is set and allowed."""
    directory = serving(context)
    name, bundle = await existing_namespace(directory, request), request.part("bundle")
    if not RANGE.fullmatch(bundle):
        raise Refused(405, f"{request.method} {request.path}: nothing to delete here")
    force = request.flag("force")
    if force and not directory.settings.force_delete_namespace_allowed:
        raise Refused(
            405,
            "force is not allowed: set forceDeleteNamespaceAllowed=true, or delete topics first",
        )
    bundles = await directory.bundles.stored.of(name)
    with refusing_bundle():
        index = bundles.index(bundle)
    topics = [one for one in await _hashes(directory, name) if bundles.index_of(one) == index]
    there = [topic for topic in topics if not topic.is_system]
    if there and not force:
        raise Refused(409, f"bundle {bundle} of {name} has {len(there)} topics: delete them first")
    for base in dict.fromkeys(topic.base for topic in topics):
        if await directory.catalogue.partitions(base):
            raise Refused(
                409, f"{base} is partitioned, so it is in several bundles: delete it by itself"
            )
    for topic in topics:
        await directory.deletion.topics.delete(topic, force=True)


# Splitting ------------------------------------------------------------------------------


async def split(context: AdminContext, request: Request) -> None:
    """Divide a bundle; its parts keep its owner, and its topics stay open without `unload`."""
    directory = serving(context)
    algorithm = request.query.get("splitAlgorithmName") or ALGORITHMS[0]
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise Refused(412, f"splitAlgorithmName is {algorithm}: expected one of {known}")
    positions = _positions_of(request)
    if algorithm == POSITIONS and not positions:
        raise Refused(412, f"the body has no positions: {POSITIONS} needs a list of hashes")
    name, bundle = await existing_namespace(directory, request), request.part("bundle")
    if bundle == HOT:
        raise Refused(412, f"{HOT} is not built yet: name a bundle, or {LARGEST}")
    hashes: list[int] = []
    if bundle == LARGEST or algorithm == TOPICS:
        hashes = list((await _hashes(directory, name)).values())
    if bundle == LARGEST:
        bundle = largest(await directory.bundles.stored.of(name), hashes)
    with refusing_bundle():
        where = hashes_of_split(algorithm, bundle, hashes, positions)
        await directory.bundles.split(name, bundle, where, request.flag("unload"))


def _positions_of(request: Request) -> list[int]:
    """Return the list in the body; empty if it has none."""
    body = request.json_or_none()
    positions = [] if body is None else body
    if not isinstance(positions, list) or any(type(one) is not int for one in positions):
        raise Refused(400, "the body: expected a list of hashes as decimal numbers, or nothing")
    return positions


async def _hashes(directory: Directory, namespace: str) -> dict[TopicName, int]:
    """Return the hashes of the topics of a namespace, and of each partition of partitioned ones."""
    stored = await directory.catalogue.topics(namespace)
    hashes = {}
    for count, topic in enumerate({*stored, *directory.topic_host.loaded(namespace)}, 1):
        if count % PAUSE_EVERY == 0:
            await yield_turn(directory.runtime.clock)
        hashes[topic] = hash_of(topic)
    return hashes


# Positions ------------------------------------------------------------------------------


async def positions(context: AdminContext, request: Request) -> Response:
    """Return the hashes of the topics of a bundle; if the query has `topics`, only of these."""
    directory = serving(context)
    name, bundle = await existing_namespace(directory, request), request.part("bundle")
    known = await directory.bundles.stored.of(name)
    with refusing_bundle():
        index = known.index(bundle)
    # Official clients encode these names once more than the rest of the query.
    named = {TopicName.parse(unquote_plus(text)) for text in request.values_of("topics")}
    hashes = await _hashes(directory, name)
    inside = sorted(topic for topic in hashes if known.index_at(hashes[topic]) == index)
    found = {
        str(topic): hashes[topic]
        for topic in inside
        if not named or topic in named or topic.base in named
    }
    return json_response({"namespace": name, "bundle": bundle, "topicHashPositions": found})
