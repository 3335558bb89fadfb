package memoryd

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// Put appends messages, and contents if there are any, all or none. It creates the session if it
// does not exist.
func (s *Session) Put(
	ctx context.Context, messages []*Message, options ...PutOption,
) (*memorydpb.PutResponse, error) {
	request := &memorydpb.PutRequest{SessionId: s.id, Messages: messages}
	for _, option := range options {
		option.put(request)
	}
	once(&request.RequestId)
	return invoke[memorydpb.PutResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_Put_FullMethodName, wait: waitOf(request)})
}

// waitOf returns how long the server may wait for the jobs of a Put.
func waitOf(put *memorydpb.PutRequest) time.Duration {
	return min(max(0, put.GetWait().AsDuration()), longestWait)
}

// PutBatch makes up to 1,000 Puts in one call, and returns the outcome of each, in their order.
// [PutOutcomeError] is the error of one that failed; it is not repeated. Puts of one session take
// effect in their order. Each gets a request id of its own, if it has none.
func (c *Client) PutBatch(
	ctx context.Context, puts ...*memorydpb.PutRequest,
) ([]*memorydpb.PutOutcome, error) {
	request := &memorydpb.PutBatchRequest{}
	wait := time.Duration(0)
	waits := map[string]time.Duration{} // Puts of one session follow each other.
	for _, put := range puts {
		if put.RequestId == nil {
			put = proto.CloneOf(put)
			once(&put.RequestId)
		}
		waits[put.GetSessionId()] += waitOf(put)
		wait = max(wait, waits[put.GetSessionId()])
		request.Puts = append(request.Puts, put)
	}
	reply, err := invoke[memorydpb.PutBatchResponse](ctx, c, request,
		call{method: memorydpb.MemoryService_PutBatch_FullMethodName, wait: wait})
	return reply.GetOutcomes(), err
}

// PutOutcomeError returns the error of a Put of a batch that failed, or nil.
func PutOutcomeError(outcome *memorydpb.PutOutcome) error {
	found := outcome.GetError()
	if found == nil {
		return nil
	}
	made := &Error{Code: codes.Code(uint32(found.GetCode())), Message: found.GetMessage()}
	made.explain(found.GetReason(), found.GetMetadata())
	return made
}

// Say puts one message with a text. Role is `user`, `assistant` or any other.
func (s *Session) Say(
	ctx context.Context, role, text string, options ...PutOption,
) (*memorydpb.PutResponse, error) {
	return s.Put(ctx, []*Message{Text(role, text)}, options...)
}

// Get returns the context for the next model call: short-term memory with the text of the blocks.
// An unknown session gives an empty one.
func (s *Session) Get(ctx context.Context, options ...GetOption) (*memorydpb.GetResponse, error) {
	request := &memorydpb.GetRequest{SessionId: s.id}
	for _, option := range options {
		option.get(request)
	}
	return invoke[memorydpb.GetResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_Get_FullMethodName})
}

// All iterates over all messages, oldest first, page by page.
func (s *Session) All(ctx context.Context, options ...ReadOption) iter.Seq2[*Message, error] {
	request := s.reading(options)
	return paged(ctx, s.client, request, memorydpb.MemoryService_GetAll_FullMethodName,
		(*memorydpb.GetAllResponse).GetMessages, (*memorydpb.GetAllResponse).GetNextPageToken,
		func(r *memorydpb.GetAllRequest, token string) { r.PageToken = token })
}

// Contents iterates over all contents, oldest first, page by page. The pages of the messages come
// before them and are fetched too.
func (s *Session) Contents(ctx context.Context, options ...ReadOption) iter.Seq2[*Content, error] {
	request := s.reading(options)
	request.IncludeContents = true
	return paged(ctx, s.client, request, memorydpb.MemoryService_GetAll_FullMethodName,
		(*memorydpb.GetAllResponse).GetContents, (*memorydpb.GetAllResponse).GetNextPageToken,
		func(r *memorydpb.GetAllRequest, token string) { r.PageToken = token })
}

// Stream iterates over all messages that are stored now, oldest first. They arrive as a stream,
// which the server reads as fast as they are taken. A stream that breaks is continued after its last
// page. Without a deadline in ctx there is none.
func (s *Session) Stream(ctx context.Context, options ...ReadOption) iter.Seq2[*Message, error] {
	reading := s.reading(options)
	request := &memorydpb.StreamAllRequest{
		SessionId: s.id, Filter: reading.Filter, Order: reading.Order, PageSize: reading.PageSize,
	}
	if reading.Status != memorydpb.MessageStatus_MESSAGE_STATUS_UNSPECIFIED {
		request.Filter = &Filter{}
		if reading.Filter != nil {
			request.Filter = proto.CloneOf(reading.Filter)
		}
		request.Filter.Status = reading.Status
	}
	pages := streamed(ctx, s.client, memorydpb.MemoryService_StreamAll_FullMethodName, request,
		func(rest *memorydpb.StreamAllRequest, page *memorydpb.StreamAllResponse) bool {
			rest.PageToken = page.GetNextPageToken()
			return rest.PageToken == ""
		})
	return func(yield func(*Message, error) bool) {
		for page, err := range pages {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, message := range page.GetMessages() {
				if !yield(message, nil) {
					return
				}
			}
		}
	}
}

// Count returns the number of messages. With [Matching] the server reads the whole session.
func (s *Session) Count(ctx context.Context, options ...ReadOption) (int64, error) {
	request := s.reading(options)
	request.PageSize, request.IncludeTotal = 1, true
	reply, err := invoke[memorydpb.GetAllResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_GetAll_FullMethodName})
	return reply.GetTotalCount(), err
}

func (s *Session) reading(options []ReadOption) *memorydpb.GetAllRequest {
	request := &memorydpb.GetAllRequest{SessionId: s.id, PageSize: largestPage}
	for _, option := range options {
		option.read(request)
	}
	return request
}

// Set replaces all messages and contents, atomically.
func (s *Session) Set(
	ctx context.Context, messages []*Message, options ...SetOption,
) (*memorydpb.SetResponse, error) {
	request := &memorydpb.SetRequest{SessionId: s.id, Messages: messages}
	for _, option := range options {
		option.set(request)
	}
	once(&request.RequestId)
	return invoke[memorydpb.SetResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_Set_FullMethodName})
}

// Reset removes messages, atomically. The scope says which, and whether contents and blocks are
// reset too.
func (s *Session) Reset(
	ctx context.Context, scope memorydpb.ResetScope, options ...ChangeOption,
) (*memorydpb.ResetResponse, error) {
	request := &memorydpb.ResetRequest{SessionId: s.id, Scope: scope}
	changed(&request.RequestId, &request.ExpectedRevision, options)
	return invoke[memorydpb.ResetResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_Reset_FullMethodName})
}

// Query finds messages, contents and the knowledge of blocks, the best first.
func (s *Session) Query(
	ctx context.Context, query string, options ...QueryOption,
) (*memorydpb.QueryResponse, error) {
	request := &memorydpb.QueryRequest{SessionId: s.id, Query: query, TopK: usualHits}
	for _, option := range options {
		option.query(request)
	}
	return invoke[memorydpb.QueryResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_Query_FullMethodName})
}

const usualHits = 10

// UpdateContext returns the caller's context with memory inserted, system messages first. It stores
// nothing.
func (s *Session) UpdateContext(
	ctx context.Context, messages []*Message, options ...ContextOption,
) (*memorydpb.UpdateContextResponse, error) {
	request := &memorydpb.UpdateContextRequest{SessionId: s.id, Messages: messages}
	for _, option := range options {
		option.context(request)
	}
	return invoke[memorydpb.UpdateContextResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_UpdateContext_FullMethodName})
}

// MessageChange is what [Session.UpdateMessage] changes. Fields that are nil, or empty, stay.
type MessageChange struct {
	Text         *string
	Parts        []*Part
	MetadataJSON *string
	Name         *string
	TokenCount   *int64
	// The epoch, time.Unix(0, 0), removes the message's time.
	ExpireTime time.Time
}

// UpdateMessage changes a message in place.
func (s *Session) UpdateMessage(
	ctx context.Context, messageID string, change MessageChange, options ...ChangeOption,
) (*memorydpb.UpdateMessageResponse, error) {
	request := &memorydpb.UpdateMessageRequest{
		SessionId: s.id, MessageId: messageID, Text: change.Text, Parts: change.Parts,
		MetadataJson: change.MetadataJSON, Name: change.Name, TokenCount: change.TokenCount,
		ExpireTime: timestampOf(change.ExpireTime),
	}
	changed(&request.RequestId, &request.ExpectedRevision, options)
	return invoke[memorydpb.UpdateMessageResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_UpdateMessage_FullMethodName})
}

// DeleteMessage deletes a message. If it has a tool call whose result is in another message, or the
// reverse, the error is [ErrToolPair]; with withToolMessages those are deleted too.
func (s *Session) DeleteMessage(
	ctx context.Context, messageID string, withToolMessages bool, options ...ChangeOption,
) (*memorydpb.DeleteMessageResponse, error) {
	request := &memorydpb.DeleteMessageRequest{
		SessionId: s.id, MessageId: messageID, WithToolMessages: withToolMessages,
	}
	changed(&request.RequestId, &request.ExpectedRevision, options)
	return invoke[memorydpb.DeleteMessageResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_DeleteMessage_FullMethodName})
}
