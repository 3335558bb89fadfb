package memoryd

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// Session is a handle of one session: a conversation, or what is known of a user. Making it neither
// calls the server nor creates the session.
type Session struct {
	client *Client
	id     string
}

// Session returns the handle of a session. The id has 1 to 256 bytes.
func (c *Client) Session(id string) *Session { return &Session{client: c, id: id} }

// ID returns the session's id.
func (s *Session) ID() string { return s.id }

// Create creates the session. If there is one, the error is [ErrSessionExists]. A nil config is the
// server's default.
func (s *Session) Create(
	ctx context.Context, config *SessionConfig, options ...CreateOption,
) (*SessionInfo, error) {
	request := &memorydpb.CreateSessionRequest{SessionId: s.id, Config: config}
	for _, option := range options {
		option.create(request)
	}
	once(&request.RequestId)
	reply, err := invoke[memorydpb.CreateSessionResponse](ctx, s.client, request,
		call{method: memorydpb.SessionService_CreateSession_FullMethodName})
	return reply.GetSession(), err
}

// Info returns the session's configuration and counts, or [ErrSessionNotFound].
func (s *Session) Info(ctx context.Context) (*SessionInfo, error) {
	reply, err := invoke[memorydpb.GetSessionResponse](ctx, s.client,
		&memorydpb.GetSessionRequest{SessionId: s.id},
		call{method: memorydpb.SessionService_GetSession_FullMethodName})
	return reply.GetSession(), err
}

// Update changes the given fields of the session's configuration. Blocks, if there are any, replace
// all blocks.
func (s *Session) Update(
	ctx context.Context, config *SessionConfig, options ...UpdateOption,
) (*SessionInfo, error) {
	request := &memorydpb.UpdateSessionRequest{SessionId: s.id, Config: config}
	for _, option := range options {
		option.update(request)
	}
	once(&request.RequestId)
	reply, err := invoke[memorydpb.UpdateSessionResponse](ctx, s.client, request,
		call{method: memorydpb.SessionService_UpdateSession_FullMethodName})
	return reply.GetSession(), err
}

// Delete deletes the session and everything that belongs to it. An unknown session is no error.
func (s *Session) Delete(
	ctx context.Context, options ...ChangeOption,
) (*memorydpb.DeleteSessionResponse, error) {
	request := &memorydpb.DeleteSessionRequest{SessionId: s.id}
	changed(&request.RequestId, &request.ExpectedRevision, options)
	return invoke[memorydpb.DeleteSessionResponse](ctx, s.client, request,
		call{method: memorydpb.SessionService_DeleteSession_FullMethodName})
}

// Fork copies the session, whole or up to a message, to a new session.
func (s *Session) Fork(
	ctx context.Context, newID string, options ...ForkOption,
) (*memorydpb.ForkSessionResponse, error) {
	request := &memorydpb.ForkSessionRequest{SessionId: s.id, NewSessionId: newID}
	for _, option := range options {
		option.fork(request)
	}
	once(&request.RequestId)
	return invoke[memorydpb.ForkSessionResponse](ctx, s.client, request,
		call{method: memorydpb.SessionService_ForkSession_FullMethodName})
}

// Watch iterates over the changes of the session as they are made, by whichever server. The first
// item comes at once, and one without changes when there is no news for a while. A stream that
// breaks is continued after its last revision; what changed meanwhile is SESSION_CHANGE_RELOAD. The
// iteration ends with ctx, with an error, or after SESSION_CHANGE_DELETED.
func (s *Session) Watch(
	ctx context.Context, options ...WatchOption,
) iter.Seq2[*memorydpb.WatchSessionResponse, error] {
	request := &memorydpb.WatchSessionRequest{SessionId: s.id}
	for _, option := range options {
		option.watch(request)
	}
	return streamed(ctx, s.client, memorydpb.SessionService_WatchSession_FullMethodName, request,
		func(rest *memorydpb.WatchSessionRequest, news *memorydpb.WatchSessionResponse) bool {
			rest.AfterRevision = &news.Revision
			return slices.Contains(news.GetChanges(), memorydpb.SessionChange_SESSION_CHANGE_DELETED)
		})
}

// Sessions iterates over the tenant's sessions, in the order of their ids.
func (c *Client) Sessions(
	ctx context.Context, options ...SessionsOption,
) iter.Seq2[*SessionInfo, error] {
	request := &memorydpb.ListSessionsRequest{PageSize: largestPage}
	for _, option := range options {
		option.sessions(request)
	}
	return paged(ctx, c, request, memorydpb.SessionService_ListSessions_FullMethodName,
		(*memorydpb.ListSessionsResponse).GetSessions, (*memorydpb.ListSessionsResponse).GetNextPageToken,
		func(r *memorydpb.ListSessionsRequest, token string) { r.PageToken = token })
}

// EraseSubject removes all sessions and namespaces of a subject. Repeat it until the reply is
// purged. With dryRun it only counts them.
func (c *Client) EraseSubject(
	ctx context.Context, subject string, dryRun bool,
) (*memorydpb.EraseSubjectResponse, error) {
	return invoke[memorydpb.EraseSubjectResponse](ctx, c,
		&memorydpb.EraseSubjectRequest{Subject: subject, DryRun: dryRun},
		call{method: memorydpb.SessionService_EraseSubject_FullMethodName})
}

// Import creates the session from messages and contents as another server returned them, whole or
// not at all. They keep ids, positions, times, status and writers. begin is its configuration and
// time of creation, or nil. Needs the rights `admin` and `write`.
//
// An error of an iterator ends the import and is returned. Without a deadline in ctx there is none.
// The call is sent once: [ErrSessionExists] may mean that an earlier one succeeded.
func (s *Session) Import(
	ctx context.Context, begin *memorydpb.ImportBegin,
	messages iter.Seq2[*Message, error], contents iter.Seq2[*Content, error],
) (*SessionInfo, error) {
	reply, err := upload[memorydpb.ImportSessionResponse](ctx, s.client,
		memorydpb.SessionService_ImportSession_FullMethodName,
		importRequests(s.id, begin, messages, contents))
	return reply.GetSession(), err
}

// largestPage is as many items as the server returns at once.
const largestPage = 1000

type forkFunc func(*memorydpb.ForkSessionRequest)

func (o forkFunc) fork(r *memorydpb.ForkSessionRequest) { o(r) }

// UpToPosition copies the messages up to this position.
func UpToPosition(position int64) ForkOption {
	return forkFunc(func(r *memorydpb.ForkSessionRequest) {
		r.UpTo = &memorydpb.ForkSessionRequest_UpToPosition{UpToPosition: position}
	})
}

// UpToMessage copies the messages up to this one.
func UpToMessage(messageID string) ForkOption {
	return forkFunc(func(r *memorydpb.ForkSessionRequest) {
		r.UpTo = &memorydpb.ForkSessionRequest_UpToMessageId{UpToMessageId: messageID}
	})
}

type watchFunc func(*memorydpb.WatchSessionRequest)

func (o watchFunc) watch(r *memorydpb.WatchSessionRequest) { o(r) }

// AfterRevision is the revision of an earlier read. If the session has changed since, the first item
// has SESSION_CHANGE_RELOAD.
func AfterRevision(revision int64) WatchOption {
	return watchFunc(func(r *memorydpb.WatchSessionRequest) { r.AfterRevision = &revision })
}

type sessionsFunc func(*memorydpb.ListSessionsRequest)

func (o sessionsFunc) sessions(r *memorydpb.ListSessionsRequest) { o(r) }

// OfSubject lists the sessions of this subject.
func OfSubject(subject string) SessionsOption {
	return sessionsFunc(func(r *memorydpb.ListSessionsRequest) { r.Subject = subject })
}

// WithIDPrefix lists the sessions whose ids begin with this.
func WithIDPrefix(prefix string) SessionsOption {
	return sessionsFunc(func(r *memorydpb.ListSessionsRequest) { r.IdPrefix = prefix })
}

// LatestFirst lists the sessions of a subject by their last change.
func LatestFirst() SessionsOption {
	return sessionsFunc(func(r *memorydpb.ListSessionsRequest) {
		r.Order = memorydpb.SessionOrder_SESSION_ORDER_LAST_CHANGE
	})
}

// changed applies the options of a change, and gives it a request id unless they do.
func changed(id **string, revision **int64, options []ChangeOption) {
	for _, option := range options {
		option.change(id, revision)
	}
	once(id)
}

// NewImport returns what [Session.Import] begins with.
func NewImport(config *SessionConfig, created time.Time) *memorydpb.ImportBegin {
	return &memorydpb.ImportBegin{Config: config, CreateTime: timestampOf(created)}
}
