package memoryd

import (
	"context"
	"iter"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// Namespace is a handle of a namespace: values under keys, at a path of 1 to 16 names. Making it
// neither calls the server nor creates the namespace.
type Namespace struct {
	client *Client
	path   []string
}

// Namespace returns the handle of a namespace, such as Namespace("users", "ada").
func (c *Client) Namespace(path ...string) *Namespace {
	return &Namespace{client: c, path: path}
}

// Path returns the names of the namespace's path.
func (n *Namespace) Path() []string { return append([]string(nil), n.path...) }

// Put stores an item, and returns its version and times. It replaces the item of the same key. The
// value is bytes if it is a []byte, else its JSON as encoding/json encodes it. A json.RawMessage is
// kept byte for byte.
func (n *Namespace) Put(
	ctx context.Context, key string, value any, options ...ItemPutOption,
) (*memorydpb.ItemWrite, error) {
	made, err := newItemPut(key, value, options)
	if err != nil {
		return nil, err
	}
	once(&made.requestID)
	reply, err := invoke[memorydpb.PutItemResponse](ctx, n.client, &memorydpb.PutItemRequest{
		Namespace: n.path, Put: made.put, RequestId: made.requestID, Config: made.config,
	}, call{method: memorydpb.ItemService_PutItem_FullMethodName})
	return reply.GetWrite(), err
}

// Get returns an item; nil if it does not exist or has expired. [DecodeItem] reads its value.
func (n *Namespace) Get(ctx context.Context, key string, options ...ItemGetOption) (*Item, error) {
	reply, err := invoke[memorydpb.GetItemResponse](ctx, n.client, &memorydpb.GetItemRequest{
		Namespace: n.path, Get: newItemGet(key, options),
	}, call{method: memorydpb.ItemService_GetItem_FullMethodName})
	return reply.GetItem(), err
}

// Delete deletes an item, and returns whether there was one.
func (n *Namespace) Delete(ctx context.Context, key string, options ...ItemDeleteOption) (bool, error) {
	made := newItemDelete(key, options)
	once(&made.requestID)
	reply, err := invoke[memorydpb.DeleteItemResponse](ctx, n.client, &memorydpb.DeleteItemRequest{
		Namespace: n.path, Delete: made.delete, RequestId: made.requestID,
	}, call{method: memorydpb.ItemService_DeleteItem_FullMethodName})
	return reply.GetExisted(), err
}

// Batch returns operations on the namespace that are stored whole or not at all. Reads see the state
// before the writes.
func (n *Namespace) Batch(operations ...*memorydpb.ItemOperation) *memorydpb.ItemBatch {
	return &memorydpb.ItemBatch{Namespace: n.path, Operations: operations}
}

// Batch runs batches over any number of namespaces, and returns the outcome of each, in their order.
// Each is stored whole or not at all. [OutcomeError] is the error of one that failed. One that writes
// and has no request id gets one of its own.
func (c *Client) Batch(
	ctx context.Context, batches ...*memorydpb.ItemBatch,
) ([]*memorydpb.ItemBatchOutcome, error) {
	request := &memorydpb.BatchItemsRequest{}
	for _, batch := range batches {
		if batch.RequestId == nil && writes(batch) {
			batch = proto.CloneOf(batch)
			once(&batch.RequestId)
		}
		request.Batches = append(request.Batches, batch)
	}
	reply, err := invoke[memorydpb.BatchItemsResponse](ctx, c, request,
		call{method: memorydpb.ItemService_BatchItems_FullMethodName})
	return reply.GetOutcomes(), err
}

// Items iterates over the namespace's items. The request's fields other than namespace and
// page_token choose which, and their order; nil: all, by their keys.
func (n *Namespace) Items(
	ctx context.Context, which *memorydpb.ListItemsRequest,
) iter.Seq2[*Item, error] {
	request := &memorydpb.ListItemsRequest{}
	if which != nil {
		request = proto.CloneOf(which)
	}
	request.Namespace, request.PageToken = n.path, ""
	return paged(ctx, n.client, request, memorydpb.ItemService_ListItems_FullMethodName,
		(*memorydpb.ListItemsResponse).GetItems, (*memorydpb.ListItemsResponse).GetNextPageToken,
		func(r *memorydpb.ListItemsRequest, token string) { r.PageToken = token })
}

// Search finds items of all namespaces that begin with this path. The request's other fields say
// how: `query`, a text, `vector`, `filter_json` and `limit`, by default 10. With a query or vector
// the best come first, each with its score; otherwise those that were stored last.
func (n *Namespace) Search(
	ctx context.Context, how *memorydpb.SearchItemsRequest,
) (*memorydpb.SearchItemsResponse, error) {
	request := proto.CloneOf(how)
	request.NamespacePrefix = n.path
	return invoke[memorydpb.SearchItemsResponse](ctx, n.client, request,
		call{method: memorydpb.ItemService_SearchItems_FullMethodName})
}

// Info returns the namespace's configuration and counts, or [ErrNamespaceNotFound].
func (n *Namespace) Info(ctx context.Context) (*memorydpb.Namespace, error) {
	reply, err := invoke[memorydpb.GetNamespaceResponse](ctx, n.client,
		&memorydpb.GetNamespaceRequest{Namespace: n.path},
		call{method: memorydpb.ItemService_GetNamespace_FullMethodName})
	return reply.GetNamespace(), err
}

// Update creates the namespace, or changes the given fields of its configuration.
func (n *Namespace) Update(
	ctx context.Context, config *memorydpb.NamespaceConfig,
) (*memorydpb.Namespace, error) {
	reply, err := invoke[memorydpb.UpdateNamespaceResponse](ctx, n.client,
		&memorydpb.UpdateNamespaceRequest{Namespace: n.path, Config: config},
		call{method: memorydpb.ItemService_UpdateNamespace_FullMethodName})
	return reply.GetNamespace(), err
}

// CopyTo copies the namespace, and with recursive all below it, to another path. It is sent once: a
// second one would find the copy there. UNAVAILABLE says that the outcome is unknown.
func (n *Namespace) CopyTo(
	ctx context.Context, recursive bool, path ...string,
) (*memorydpb.CopyNamespaceResponse, error) {
	return invoke[memorydpb.CopyNamespaceResponse](ctx, n.client, &memorydpb.CopyNamespaceRequest{
		Namespace: n.path, NewNamespace: path, Recursive: recursive,
	}, call{method: memorydpb.ItemService_CopyNamespace_FullMethodName, once: true})
}

// DeleteAll deletes the namespace with its items, and with recursive all below it. An unknown one is
// no error.
func (n *Namespace) DeleteAll(
	ctx context.Context, recursive bool,
) (*memorydpb.DeleteNamespaceResponse, error) {
	return invoke[memorydpb.DeleteNamespaceResponse](ctx, n.client,
		&memorydpb.DeleteNamespaceRequest{Namespace: n.path, Recursive: recursive},
		call{method: memorydpb.ItemService_DeleteNamespace_FullMethodName})
}

// Import creates the namespace from items as [Namespace.Items] returned them, here or elsewhere, in
// ITEM_ORDER_OLDEST_FIRST and with vectors; whole or not at all. Errors and repetitions are as for
// [Session.Import].
func (n *Namespace) Import(
	ctx context.Context, begin *memorydpb.ImportNamespaceBegin, items iter.Seq2[*Item, error],
) (*memorydpb.Namespace, error) {
	reply, err := upload[memorydpb.ImportNamespaceResponse](ctx, n.client,
		memorydpb.ItemService_ImportNamespace_FullMethodName,
		namespaceRequests(n.path, begin, items))
	return reply.GetNamespace(), err
}

// Namespaces iterates over the namespaces that have items, in bytewise order. The request's fields
// choose which; nil: all.
func (c *Client) Namespaces(
	ctx context.Context, which *memorydpb.ListNamespacesRequest,
) iter.Seq2[*memorydpb.Namespace, error] {
	request := &memorydpb.ListNamespacesRequest{PageSize: largestPage}
	if which != nil {
		request = proto.CloneOf(which)
	}
	request.PageToken = ""
	return paged(ctx, c, request, memorydpb.ItemService_ListNamespaces_FullMethodName,
		(*memorydpb.ListNamespacesResponse).GetNamespaces,
		(*memorydpb.ListNamespacesResponse).GetNextPageToken,
		func(r *memorydpb.ListNamespacesRequest, token string) { r.PageToken = token })
}

func decimal(number int64) string { return strconv.FormatInt(number, 10) }

func writes(batch *memorydpb.ItemBatch) bool {
	for _, operation := range batch.GetOperations() {
		if operation.GetGet() == nil {
			return true
		}
	}
	return false
}
