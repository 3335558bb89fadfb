"""The load of items, on namespaces in a dictionary that keep every promise."""

from __future__ import annotations

import asyncio
import itertools
import json
import random

import pytest

from support.calls import item_wire as wire
from torture import bodies, checker, item_load

SEED = 7


class Service:
    """All namespaces of all tenants. A call is done at once, and now and then its answer is lost."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._spaces: dict[tuple[str, ...], dict[str, wire.Item]] = {}
        self._replies: dict[tuple, list[wire.ItemOperationResult]] = {}
        self._version, self.now = 1000, 0

    async def call(self, tenant: str, client: int, operation: str, session: str, request,
                   replica=None):
        self.now += 10
        record = {"op": operation, "tenant": tenant, "session": session, "client": client,
                  "invoke_ns": self.now}
        reply = getattr(self, f"_{operation}")(tenant, request)
        await asyncio.sleep(0)
        self.now += 10
        record.update(return_ns=self.now, outcome="ok")
        if isinstance(reply, wire.ItemError):
            record.update(outcome="fail", code="ABORTED", reason=reply.reason)
            if reply.reason == "VERSION_MISMATCH":
                record["stored"] = reply.version
            return None, record
        if self._chance.random() < 0.05:
            record.update(outcome="unknown", code="DEADLINE_EXCEEDED", reason="")
            return None, record
        return reply, record

    def _items(self, tenant: str, path) -> dict[str, wire.Item]:
        return self._spaces.setdefault((tenant, *path), {})

    def _batch(self, tenant: str, batch: wire.ItemBatch) -> wire.ItemBatchOutcome:
        items = self._items(tenant, batch.namespace)
        request = (tenant, *batch.namespace, batch.request_id)
        if batch.request_id and request in self._replies:
            sent, results = self._replies[request]
            if sent != batch:
                return wire.ItemBatchOutcome(error=wire.ItemError(
                    code=6, reason="REQUEST_ID_REUSED"))
            return wire.ItemBatchOutcome(results=results, replayed=True)
        for index, operation in enumerate(batch.operations):
            write = operation.put if operation.HasField("put") else operation.delete
            if operation.HasField("get") or not write.HasField("expected_version"):
                continue
            version = items[write.key].version if write.key in items else 0
            if version != write.expected_version:
                return wire.ItemBatchOutcome(error=wire.ItemError(
                    code=10, reason="VERSION_MISMATCH", operation=index, version=version))
        results = [self._do(items, batch.namespace, operation) for operation in batch.operations]
        if batch.request_id:
            self._replies[request] = batch, results
        return wire.ItemBatchOutcome(results=results)

    def _do(self, items: dict[str, wire.Item], path, operation: wire.ItemOperation
            ) -> wire.ItemOperationResult:
        result = wire.ItemOperationResult()
        if operation.HasField("get"):
            result.get.SetInParent()
            if operation.get.key in items:
                result.get.item.CopyFrom(items[operation.get.key])
        elif operation.HasField("delete"):
            result.delete.existed = items.pop(operation.delete.key, None) is not None
        else:
            self._version += 1
            put = operation.put
            items[put.key] = wire.Item(
                namespace=path, key=put.key, version=self._version,
                **{put.WhichOneof("value"): getattr(put, put.WhichOneof("value"))})
            result.put.version = self._version
        return result

    def _one(self, tenant: str, request, **operation):
        outcome = self._batch(tenant, wire.ItemBatch(
            namespace=request.namespace, request_id=request.request_id or None,
            operations=[wire.ItemOperation(**operation)]))
        return outcome, outcome.error if outcome.HasField("error") else None

    def _put_item(self, tenant, request):
        outcome, error = self._one(tenant, request, put=request.put)
        return error or wire.PutItemResponse(write=outcome.results[0].put,
                                             replayed=outcome.replayed)

    def _delete_item(self, tenant, request):
        outcome, error = self._one(tenant, request, delete=request.delete)
        return error or wire.DeleteItemResponse(existed=outcome.results[0].delete.existed,
                                                replayed=outcome.replayed)

    def _get_item(self, tenant, request):
        return wire.GetItemResponse(item=self._items(tenant, request.namespace).get(
            request.get.key))

    def _batch_items(self, tenant, request):
        return wire.BatchItemsResponse(outcomes=[self._batch(tenant, b) for b in request.batches])

    def _passing(self, items, filter_json: str) -> list[wire.Item]:
        wanted = json.loads(filter_json) if filter_json else {}
        return [item for item in items if not wanted or (
            item.HasField("json") and json.loads(item.json)["client"] == wanted["client"])]

    def _list_items(self, tenant, request):
        by_key = request.order not in (wire.ITEM_ORDER_OLDEST_FIRST, wire.ITEM_ORDER_NEWEST_FIRST)
        down = request.order in (wire.ITEM_ORDER_KEY_DESCENDING, wire.ITEM_ORDER_NEWEST_FIRST)

        def place(item: wire.Item):
            return item.key if by_key else item.version

        items = sorted(self._items(tenant, request.namespace).values(), key=place, reverse=down)
        if request.page_token:
            after = request.page_token if by_key else int(request.page_token)
            items = [item for item in items
                     if (place(item) < after if down else place(item) > after)]
        page = items[:request.page_size]
        return wire.ListItemsResponse(
            items=self._passing(page, request.filter_json),
            next_page_token=str(place(page[-1])) if len(page) < len(items) else "")

    def _search_items(self, tenant, request):
        found = itertools.chain.from_iterable(
            items.values() for path, items in self._spaces.items()
            if path[0] == tenant
            and path[1:len(request.namespace_prefix) + 1] == tuple(request.namespace_prefix))
        return wire.SearchItemsResponse(results=[
            wire.ItemResult(item=item) for item in self._passing(found, request.filter_json)])

    def _list_spaces(self, tenant, _):
        return wire.ListNamespacesResponse(namespaces=[
            wire.Namespace(namespace=path[1:]) for path, items in self._spaces.items()
            if path[0] == tenant and items])

    def _copy_space(self, tenant, request):
        source = self._items(tenant, request.namespace)
        copy = self._items(tenant, request.new_namespace)
        for key, item in source.items():
            self._version += 1
            copy[key] = wire.Item()
            copy[key].CopyFrom(item)
            copy[key].version = self._version
            copy[key].namespace[:] = request.new_namespace
        return wire.CopyNamespaceResponse(namespace_count=1, item_count=len(source))

    def _drop_space(self, tenant, request):
        self._items(tenant, request.namespace).clear()
        return wire.DeleteNamespaceResponse()


class ForgetsTheTenant(Service):
    """In one call of many."""

    def _items(self, tenant, path):
        return super()._items("t0" if self.now % 700 == 0 else tenant, path)


def records(service: Service, calls: int = 150) -> list[dict]:
    """What two clients of each of two tenants note."""
    written: list[dict] = []
    texts = bodies.Bodies(SEED)

    async def client(number: int, tenant: str) -> None:
        numbers = itertools.count(1)

        def call(*arguments):
            return service.call(tenant, number, *arguments)

        load = item_load.ItemLoad(item_load.Caller(
            call, written.append, lambda: next(numbers), lambda: [0, 1],
            bodies.Sender(tenant, "", number, SEED), texts, random.Random(f"{tenant} {number}")),
            # Nothing expires here.
            [name for name in item_load.SPACES if not item_load.SPACES[name].expires])
        for _ in range(calls):
            await load.one()

    async def run() -> None:
        await asyncio.gather(*(client(number, tenant) for number in range(2)
                               for tenant in ("t0", "t1")))

    asyncio.run(run())
    return written


@pytest.mark.parametrize("seed", range(3))
def test_what_clients_note_of_a_service_that_keeps_its_promises_is_clean(seed):
    noted = records(Service(seed))
    assert {record["op"] for record in noted} == {"item_write", "item_read", "space_delete"}
    report = checker.check(noted)
    assert report.violations == 0, report.examples
    assert report.acked > 100 and report.reads > 100


def test_a_tenant_that_sees_anothers_items_is_caught():
    assert checker.check(records(ForgetsTheTenant(1))).leaked > 0
