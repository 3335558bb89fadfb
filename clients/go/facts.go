package memoryd

import (
	"context"
	"iter"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// KnownBlock is a handle of a session's block and what it knows.
type KnownBlock struct {
	session *Session
	name    string
}

// Block returns the handle of one of the session's blocks.
func (s *Session) Block(name string) *KnownBlock { return &KnownBlock{session: s, name: name} }

// Get returns the block and its knowledge, or [ErrBlockNotFound].
func (b *KnownBlock) Get(ctx context.Context) (*memorydpb.GetBlockResponse, error) {
	return invoke[memorydpb.GetBlockResponse](ctx, b.session.client,
		&memorydpb.GetBlockRequest{SessionId: b.session.id, Block: b.name},
		call{method: memorydpb.BlockService_GetBlock_FullMethodName})
}

// Entries iterates over all entries of a `vector` block, oldest first.
func (b *KnownBlock) Entries(ctx context.Context) iter.Seq2[*memorydpb.BlockEntry, error] {
	request := &memorydpb.ListBlockEntriesRequest{
		SessionId: b.session.id, Block: b.name, PageSize: largestPage,
	}
	return paged(ctx, b.session.client, request, memorydpb.BlockService_ListBlockEntries_FullMethodName,
		(*memorydpb.ListBlockEntriesResponse).GetEntries, (*memorydpb.ListBlockEntriesResponse).GetNextPageToken,
		func(r *memorydpb.ListBlockEntriesRequest, token string) { r.PageToken = token })
}

// AddFact adds a fact to a block of kind `fact-extraction`. If the block knows it, the error is
// [ErrFactExists].
func (b *KnownBlock) AddFact(
	ctx context.Context, text string, options ...FactOption,
) (*memorydpb.AddFactResponse, error) {
	request := &memorydpb.AddFactRequest{SessionId: b.session.id, Block: b.name, Text: text}
	for _, option := range options {
		option.fact(request)
	}
	once(&request.RequestId)
	return invoke[memorydpb.AddFactResponse](ctx, b.session.client, request,
		call{method: memorydpb.BlockService_AddFact_FullMethodName})
}

// UpdateFact corrects a fact. Its former text goes into the block's history.
func (b *KnownBlock) UpdateFact(
	ctx context.Context, factID int64, text string, options ...ChangeOption,
) (*memorydpb.UpdateFactResponse, error) {
	request := &memorydpb.UpdateFactRequest{
		SessionId: b.session.id, Block: b.name, FactId: factID, Text: text,
	}
	changed(&request.RequestId, &request.ExpectedRevision, options)
	return invoke[memorydpb.UpdateFactResponse](ctx, b.session.client, request,
		call{method: memorydpb.BlockService_UpdateFact_FullMethodName})
}

// DeleteFact removes a fact; it goes into the block's history.
func (b *KnownBlock) DeleteFact(
	ctx context.Context, factID int64, options ...ChangeOption,
) (*memorydpb.DeleteFactResponse, error) {
	request := &memorydpb.DeleteFactRequest{
		SessionId: b.session.id, Block: b.name, FactId: factID,
	}
	changed(&request.RequestId, &request.ExpectedRevision, options)
	return invoke[memorydpb.DeleteFactResponse](ctx, b.session.client, request,
		call{method: memorydpb.BlockService_DeleteFact_FullMethodName})
}

// Undo undoes a change of the block's facts. The change's number is in the reply to it, and in the
// block's history.
func (b *KnownBlock) Undo(
	ctx context.Context, change int64, options ...ChangeOption,
) (*memorydpb.UndoBlockChangeResponse, error) {
	request := &memorydpb.UndoBlockChangeRequest{
		SessionId: b.session.id, Block: b.name, Change: change,
	}
	changed(&request.RequestId, &request.ExpectedRevision, options)
	return invoke[memorydpb.UndoBlockChangeResponse](ctx, b.session.client, request,
		call{method: memorydpb.BlockService_UndoBlockChange_FullMethodName})
}

type factFunc func(*memorydpb.AddFactRequest)

func (o factFunc) fact(r *memorydpb.AddFactRequest) { o(r) }

// Trust is how far the fact is trusted, 0 to 1.
func Trust(trust float64) FactOption {
	return factFunc(func(r *memorydpb.AddFactRequest) { r.Trust = &trust })
}

// Evidence are the messages that the fact is known from.
func Evidence(messageIDs ...string) FactOption {
	return factFunc(func(r *memorydpb.AddFactRequest) {
		r.MessageIds = append(r.MessageIds, messageIDs...)
	})
}
