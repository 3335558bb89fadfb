"""Requests and replies of the client's methods on items, as _calls has those on sessions."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

from memoryd import items
from memoryd._calls import UPLOADED_BYTES, UPLOADED_ITEMS, Call, Pages, Rpc, Upload
from memoryd.items import Item, Ttl, names
from memoryd.v1 import item_service_pb2 as wire

# What the server says of a batch because of all that is read at once.
TOO_MUCH_AT_ONCE = ("REPLY_TOO_LARGE", "MEMORY_SHORT")
# The ends of a list of items, as list_items takes them.
_ORDERS = {
    "key": wire.ITEM_ORDER_KEY,
    "key-descending": wire.ITEM_ORDER_KEY_DESCENDING,
    "oldest-first": wire.ITEM_ORDER_OLDEST_FIRST,
    "newest-first": wire.ITEM_ORDER_NEWEST_FIRST,
}


def put_item(
    namespace: Sequence[str],
    key: str,
    value: Any,
    *,
    mime_type: str = "",
    expected_version: int | None = None,
    ttl: Ttl | None = None,
    search: Sequence[str] | None = None,
    vector: Iterable[float] = (),
    config: wire.NamespaceConfig | None = None,
    request_id: str | None = None,
    timeout: float | None = None,
) -> Call[wire.ItemWrite]:
    """Stores an item, and returns its version and times. `value` is bytes, or anything that JSON
    holds. Replaces the item of the same key.

    With `expected_version` the item is stored only if it is at this version; 0: only if it does not
    exist. Otherwise MemorydError is ABORTED `VERSION_MISMATCH`. `ttl` is how long the item stays,
    in seconds or as a timedelta; without it as the namespace says. `search` has the paths of the
    fields that searches find the item by; [] for none. `vector` is one to find it by. `config` is
    that of the namespace if this call makes it."""
    batch = items.batch(
        namespace,
        [items.put(key, value, mime_type=mime_type, expected_version=expected_version, ttl=ttl,
                   search=search, vector=vector)],
        config=config, request_id=request_id)
    return _alone(batch, timeout, lambda result: result.put)


def get_item(
    namespace: Sequence[str],
    key: str,
    *,
    refresh_ttl: bool | None = None,
    with_vector: bool = False,
    timeout: float | None = None,
) -> Call[Item | None]:
    """Returns an item; None if it does not exist or has expired. `refresh_ttl` says whether its ttl
    begins again; without it as the namespace says."""
    batch = items.batch(
        namespace, [items.get(key, refresh_ttl=refresh_ttl, with_vector=with_vector)])
    return _alone(batch, timeout, lambda result: items.item_of(result.get))


def delete_item(
    namespace: Sequence[str],
    key: str,
    *,
    expected_version: int | None = None,
    request_id: str | None = None,
    timeout: float | None = None,
) -> Call[bool]:
    """Deletes an item, and returns whether there was one. `expected_version` is as in `put_item`,
    above 0."""
    batch = items.batch(
        namespace, [items.delete(key, expected_version=expected_version)], request_id=request_id)
    return _alone(batch, timeout, lambda result: bool(result.delete.existed))


def batch_items(
    batches: Iterable[wire.ItemBatch], *, timeout: float | None = None
) -> Call[Sequence[wire.ItemBatchOutcome]]:
    """Runs batches made by `memoryd.items.batch`, and returns the outcome of each, in their order.
    Each is stored whole or not at all. One that fails raises nothing here; `memoryd.items.results`
    raises its error. A batch that writes and has no request id gets one."""
    request = wire.BatchItemsRequest(batches=batches)
    for one in request.batches:
        if not one.HasField("request_id") and not all(
                operation.HasField("get") for operation in one.operations):
            one.request_id = uuid.uuid4().hex
    return Call(_BATCH_ITEMS, request, lambda reply: reply.outcomes, timeout)


def list_items(
    namespace: Sequence[str],
    *,
    order: str = "key",
    key_prefix: str = "",
    start_key: str = "",
    end_key: str = "",
    filter: Mapping[str, Any] | None = None,
    keys_only: bool = False,
    with_vectors: bool = False,
    refresh_ttl: bool | None = None,
    page_size: int = 100,
    timeout: float | None = None,
) -> Pages[Item]:
    """Iterates over the items of a namespace. `order` is `key`, `key-descending`, `oldest-first` or
    `newest-first`. Keys begin with `key_prefix`, and are from `start_key` to before `end_key`.
    `filter` is as in `search_items`. Items are fetched page by page; the timeout applies to each
    page."""
    if order not in _ORDERS:
        raise ValueError(f"order: must be one of {', '.join(_ORDERS)}; got {order!r}")
    request = wire.ListItemsRequest(
        namespace=names(namespace), order=_ORDERS[order], key_prefix=key_prefix,
        start_key=start_key, end_key=end_key, filter_json=items.filter_json(filter),
        keys_only=keys_only, with_vectors=with_vectors, page_size=page_size,
        **items.given(refresh_ttl=refresh_ttl))
    return Pages(Call(_LIST_ITEMS, request, _reply, timeout), lambda page: map(Item, page.items))


def search_items(
    namespace_prefix: Sequence[str] = (),
    *,
    query: str = "",
    filter: Mapping[str, Any] | None = None,
    vector: Iterable[float] = (),
    limit: int = 10,
    offset: int = 0,
    score_threshold: float | None = None,
    refresh_ttl: bool | None = None,
    with_vectors: bool = False,
    timeout: float | None = None,
) -> Call[list[Item]]:
    """Returns items of all namespaces that begin with a path. With `query`, a text, or `vector` the
    best come first, each with its `score`; otherwise those that were stored last. With `query`,
    items that do not answer it come last, and their `score` is None.

    `filter` maps fields of the value to what they must be: a value, or conditions such as
    `{"age": {"$gte": 18, "$lt": 65}}` with `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and `$lte`."""
    request = wire.SearchItemsRequest(
        namespace_prefix=names(namespace_prefix), query=query,
        filter_json=items.filter_json(filter), vector=vector, limit=limit, offset=offset,
        score_threshold=score_threshold, with_vectors=with_vectors,
        **items.given(refresh_ttl=refresh_ttl))
    return Call(_SEARCH_ITEMS, request, _found, timeout)


def get_namespace(
    namespace: Sequence[str], *, timeout: float | None = None
) -> Call[wire.Namespace]:
    """Returns a namespace's configuration and counts."""
    return Call(_GET_NAMESPACE, wire.GetNamespaceRequest(namespace=names(namespace)),
                _namespace, timeout)


def update_namespace(
    namespace: Sequence[str],
    *,
    subject: str | None = None,
    default_ttl: Ttl | None = None,
    refresh_ttl: bool | None = None,
    search: Sequence[str] | None = None,
    timeout: float | None = None,
) -> Call[wire.Namespace]:
    """Makes a namespace, or changes its configuration; what is not given stays. `subject` is whose
    data the items are. `default_ttl` is for items that are stored without one; 0: they stay."""
    config = wire.NamespaceConfig(
        subject=subject, search=items.searched(search), **items.given(refresh_ttl=refresh_ttl))
    if default_ttl is not None:
        config.default_ttl.CopyFrom(items.duration(default_ttl))
    request = wire.UpdateNamespaceRequest(namespace=names(namespace), config=config)
    return Call(_UPDATE_NAMESPACE, request, _namespace, timeout)


def list_namespaces(
    *,
    prefix: Sequence[str] = (),
    suffix: Sequence[str] = (),
    matches: Iterable[wire.NamespaceMatch] = (),
    max_depth: int = 0,
    subject: str = "",
    include_empty: bool = False,
    page_size: int = 1000,
    timeout: float | None = None,
) -> Pages[tuple[str, ...]]:
    """Iterates over the paths of the namespaces that have items, in bytewise order. `*` in `prefix`
    and `suffix` stands for any one name; `matches` are further conditions. Paths longer than
    `max_depth` names are cut to it. With `include_empty` also those that have a configuration
    only."""
    conditions = [
        wire.NamespaceMatch(end=end, names=names(path))
        for end, path in ((wire.NamespaceMatch.END_PREFIX, prefix),
                          (wire.NamespaceMatch.END_SUFFIX, suffix)) if path]
    request = wire.ListNamespacesRequest(
        matches=[*conditions, *matches], max_depth=max_depth, subject=subject,
        include_empty=include_empty, page_size=page_size)
    return Pages(Call(_LIST_NAMESPACES, request, _reply, timeout),
                 lambda page: [tuple(one.namespace) for one in page.namespaces])


def copy_namespace(
    namespace: Sequence[str],
    new_namespace: Sequence[str],
    *,
    recursive: bool = False,
    timeout: float | None = None,
) -> Call[wire.CopyNamespaceResponse]:
    """Copies a namespace, and with `recursive` all below it. The call is never repeated, since the
    copy would be in its own way."""
    request = wire.CopyNamespaceRequest(
        namespace=names(namespace), new_namespace=names(new_namespace), recursive=recursive)
    return Call(_COPY_NAMESPACE, request, _reply, timeout, repeatable=False)


def delete_namespace(
    namespace: Sequence[str], *, recursive: bool = False, timeout: float | None = None
) -> Call[wire.DeleteNamespaceResponse]:
    """Deletes a namespace with its items, and with `recursive` all below it. An unknown one is
    OK."""
    request = wire.DeleteNamespaceRequest(namespace=names(namespace), recursive=recursive)
    return Call(_DELETE_NAMESPACE, request, _reply, timeout)


def import_namespace(
    namespace: Sequence[str],
    items: Iterable[Item | wire.Item] = (),
    *,
    config: wire.NamespaceConfig | None = None,
    create_time: datetime.datetime | None = None,
    timeout: float | None = None,
) -> Upload[wire.Namespace]:
    """Makes a namespace of the items that `list_items` returned, here or elsewhere, whole or not at
    all. Give them with `order="oldest-first"` and `with_vectors=True`, so that their versions keep
    their order. They keep their times, ttls and writers. Needs the rights `admin` and `write`.

    Without `timeout` there is no deadline. A failed call is not repeated; ALREADY_EXISTS
    `NAMESPACE_EXISTS` may mean that an earlier try succeeded. Another thread reads the iterable as
    fast as the server takes the items, and stops when the call has ended. An exception from the
    iterable is raised by the call, and nothing is made."""

    def requests() -> Generator[wire.ImportNamespaceRequest, None, None]:
        begin = wire.ImportNamespaceBegin(namespace=names(namespace), config=config)
        if create_time is not None:
            begin.create_time.FromDatetime(create_time)
        yield wire.ImportNamespaceRequest(begin=begin)
        some, size, count = wire.ImportNamespaceItems(), 0, 0
        for item in items:
            one = item.wire if isinstance(item, Item) else item
            if size + one.ByteSize() > UPLOADED_BYTES or len(some.items) == UPLOADED_ITEMS:
                yield wire.ImportNamespaceRequest(items=some)
                some, size = wire.ImportNamespaceItems(), 0
            some.items.append(one)
            size += one.ByteSize()
            count += 1
        yield wire.ImportNamespaceRequest(items=some)
        yield wire.ImportNamespaceRequest(end=wire.ImportNamespaceEnd(item_count=count))

    return Upload(_IMPORT_NAMESPACE, requests, _namespace, timeout)



def is_batch(call: Call[Any]) -> bool:
    """Whether the call may be made together with others of its kind."""
    return call.rpc is _BATCH_ITEMS


def is_brief(call: Call[Any]) -> bool:
    """Whether the call takes so little that nobody would end it."""
    return call.rpc is _BATCH_ITEMS or call.rpc is _LIST_ITEMS


def _alone(batch: wire.ItemBatch, timeout: float | None, of: Any) -> Call[Any]:
    """The call of a batch with one operation, whose result is what `of` makes of the
    operation's."""
    return Call(_BATCH_ITEMS, wire.BatchItemsRequest(batches=[batch]),
                lambda reply: of(items.results(reply.outcomes[0])[0]), timeout)


def _reply(reply: Any) -> Any:
    return reply


def _found(reply: Any) -> list[Item]:
    return [Item(one.item, one.score if one.HasField("score") else None) for one in reply.results]


def _namespace(reply: Any) -> wire.Namespace:
    namespace: wire.Namespace = reply.namespace
    return namespace


_BATCH_ITEMS = Rpc("ItemService", "BatchItems", wire.BatchItemsResponse)
_LIST_ITEMS = Rpc("ItemService", "ListItems", wire.ListItemsResponse)
_SEARCH_ITEMS = Rpc("ItemService", "SearchItems", wire.SearchItemsResponse)
_GET_NAMESPACE = Rpc("ItemService", "GetNamespace", wire.GetNamespaceResponse)
_UPDATE_NAMESPACE = Rpc("ItemService", "UpdateNamespace", wire.UpdateNamespaceResponse)
_LIST_NAMESPACES = Rpc("ItemService", "ListNamespaces", wire.ListNamespacesResponse)
_COPY_NAMESPACE = Rpc("ItemService", "CopyNamespace", wire.CopyNamespaceResponse)
_DELETE_NAMESPACE = Rpc("ItemService", "DeleteNamespace", wire.DeleteNamespaceResponse)
_IMPORT_NAMESPACE = Rpc("ItemService", "ImportNamespace", wire.ImportNamespaceResponse)
