package memoryd

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// Options of single calls. Each method's last argument names the interface that its options have.
type (
	// PutOption is an option of [Session.Put].
	PutOption interface{ put(*memorydpb.PutRequest) }
	// SetOption is an option of [Session.Set].
	SetOption interface{ set(*memorydpb.SetRequest) }
	// GetOption is an option of [Session.Get].
	GetOption interface{ get(*memorydpb.GetRequest) }
	// ReadOption is an option of calls that read messages or contents one after the other.
	ReadOption interface {
		read(*memorydpb.GetAllRequest)
	}
	// QueryOption is an option of [Session.Query] and [User.Recall].
	QueryOption interface{ query(*memorydpb.QueryRequest) }
	// ContextOption is an option of [Session.UpdateContext].
	ContextOption interface {
		context(*memorydpb.UpdateContextRequest)
	}
	// CreateOption is an option of [Session.Create].
	CreateOption interface {
		create(*memorydpb.CreateSessionRequest)
	}
	// UpdateOption is an option of [Session.Update].
	UpdateOption interface {
		update(*memorydpb.UpdateSessionRequest)
	}
	// ForkOption is an option of [Session.Fork].
	ForkOption interface {
		fork(*memorydpb.ForkSessionRequest)
	}
	// SessionsOption is an option of [Client.Sessions].
	SessionsOption interface {
		sessions(*memorydpb.ListSessionsRequest)
	}
	// WatchOption is an option of [Session.Watch].
	WatchOption interface {
		watch(*memorydpb.WatchSessionRequest)
	}
	// FactOption is an option of [KnownBlock.AddFact].
	FactOption interface {
		fact(*memorydpb.AddFactRequest)
	}
	// ChangeOption is an option of the other calls that change a session.
	ChangeOption interface {
		change(id **string, revision **int64)
	}
)

// RequestIDOption is what [RequestID] returns.
type RequestIDOption string

// RequestID names the change, so that a repetition with the same request is not done again: for 24
// hours it returns the stored reply. By default each call has an id of its own, under which the
// client repeats it. 1 to 128 bytes.
func RequestID(id string) RequestIDOption { return RequestIDOption(id) }

func (o RequestIDOption) put(r *memorydpb.PutRequest) { r.RequestId = proto.String(string(o)) }
func (o RequestIDOption) set(r *memorydpb.SetRequest) { r.RequestId = proto.String(string(o)) }
func (o RequestIDOption) create(r *memorydpb.CreateSessionRequest) {
	r.RequestId = proto.String(string(o))
}
func (o RequestIDOption) update(r *memorydpb.UpdateSessionRequest) {
	r.RequestId = proto.String(string(o))
}
func (o RequestIDOption) fork(r *memorydpb.ForkSessionRequest) { r.RequestId = proto.String(string(o)) }
func (o RequestIDOption) fact(r *memorydpb.AddFactRequest)     { r.RequestId = proto.String(string(o)) }
func (o RequestIDOption) change(id **string, _ **int64)        { *id = proto.String(string(o)) }
func (o RequestIDOption) remember(u *userCall)                 { u.requestID = string(o) }
func (o RequestIDOption) converse(u *userCall)                 { u.requestID = string(o) }

// RevisionOption is what [IfRevision] returns.
type RevisionOption int64

// IfRevision makes the change only if the session is at this revision; else the error is
// [ErrRevisionMismatch]. 0: the session must not exist.
func IfRevision(revision int64) RevisionOption { return RevisionOption(revision) }

func (o RevisionOption) put(r *memorydpb.PutRequest) { r.ExpectedRevision = proto.Int64(int64(o)) }
func (o RevisionOption) set(r *memorydpb.SetRequest) { r.ExpectedRevision = proto.Int64(int64(o)) }
func (o RevisionOption) update(r *memorydpb.UpdateSessionRequest) {
	r.ExpectedRevision = proto.Int64(int64(o))
}
func (o RevisionOption) fork(r *memorydpb.ForkSessionRequest) {
	r.ExpectedRevision = proto.Int64(int64(o))
}
func (o RevisionOption) fact(r *memorydpb.AddFactRequest)    { r.ExpectedRevision = proto.Int64(int64(o)) }
func (o RevisionOption) change(_ **string, revision **int64) { *revision = proto.Int64(int64(o)) }

// ConfigOption is what [WithConfig] returns.
type ConfigOption struct{ config *SessionConfig }

// WithConfig is the configuration of a session that the call creates. An existing session must have
// the same values, else the error is [ErrConfigMismatch].
func WithConfig(config *SessionConfig) ConfigOption { return ConfigOption{config} }

func (o ConfigOption) put(r *memorydpb.PutRequest) { r.Config = o.config }
func (o ConfigOption) converse(u *userCall)        { u.config = o.config }

// TemplateOption is what [WithTemplate] returns.
type TemplateOption string

// WithTemplate names a configuration on the server (GetServerInfoResponse.templates). Beside it a
// config may have only subject and time_zone.
func WithTemplate(name string) TemplateOption { return TemplateOption(name) }

func (o TemplateOption) put(r *memorydpb.PutRequest)              { r.Template = string(o) }
func (o TemplateOption) create(r *memorydpb.CreateSessionRequest) { r.Template = string(o) }
func (o TemplateOption) update(r *memorydpb.UpdateSessionRequest) { r.Template = string(o) }
func (o TemplateOption) converse(u *userCall)                     { u.template = string(o) }

// WaitOption is what [Wait] returns.
type WaitOption time.Duration

// Wait has a Put wait at most this long for the jobs that it causes, and at most 30 s. It comes to
// the client's timeout. A deadline of the context includes it; the wait then ends shortly before.
func Wait(wait time.Duration) WaitOption { return WaitOption(wait) }

func (o WaitOption) put(r *memorydpb.PutRequest) { r.Wait = durationOf(time.Duration(o)) }
func (o WaitOption) remember(u *userCall)        { u.wait = time.Duration(o) }
func (o WaitOption) converse(u *userCall)        { u.wait = time.Duration(o) }

// ContentsOption is what [WithContents] returns.
type ContentsOption []*Content

// WithContents stores contents together with the messages.
func WithContents(contents ...*Content) ContentsOption { return contents }

func (o ContentsOption) put(r *memorydpb.PutRequest) { r.Contents = append(r.Contents, o...) }
func (o ContentsOption) set(r *memorydpb.SetRequest) { r.Contents = append(r.Contents, o...) }

type getFunc func(*memorydpb.GetRequest)

func (o getFunc) get(r *memorydpb.GetRequest) { o(r) }

// Input is the user's next message, which blocks may use to choose what they recall. It is not
// stored.
func Input(text string) GetOption {
	return getFunc(func(r *memorydpb.GetRequest) { r.Input = proto.String(text) })
}

// Explain has the reply's explanation tell what each block takes, and which messages were left out.
func Explain() GetOption {
	return getFunc(func(r *memorydpb.GetRequest) { r.Explain = true })
}

type readFunc func(*memorydpb.GetAllRequest)

func (o readFunc) read(r *memorydpb.GetAllRequest) { o(r) }

// NewestFirst reads in the order of descending positions. The last 20 messages cost as much however
// long the session is.
func NewestFirst() ReadOption {
	return readFunc(func(r *memorydpb.GetAllRequest) {
		r.Order = memorydpb.MessageOrder_MESSAGE_ORDER_NEWEST_FIRST
	})
}

// OfStatus reads the messages of one status, active or archived.
func OfStatus(status memorydpb.MessageStatus) ReadOption {
	return readFunc(func(r *memorydpb.GetAllRequest) { r.Status = status })
}

// FilterOption is what [Matching] returns.
type FilterOption struct{ filter *Filter }

// Matching reads, or finds, only what passes the filter.
func Matching(filter *Filter) FilterOption { return FilterOption{filter} }

func (o FilterOption) read(r *memorydpb.GetAllRequest) { r.Filter = o.filter }
func (o FilterOption) query(r *memorydpb.QueryRequest) { r.Filter = o.filter }

// PageSizeOption is what [PageSize] returns.
type PageSizeOption int32

// PageSize is the most items of a page. Pages are fetched as they are needed. Default:
// 1,000.
func PageSize(items int32) PageSizeOption { return PageSizeOption(items) }

func (o PageSizeOption) read(r *memorydpb.GetAllRequest)           { r.PageSize = int32(o) }
func (o PageSizeOption) sessions(r *memorydpb.ListSessionsRequest) { r.PageSize = int32(o) }

type queryFunc func(*memorydpb.QueryRequest)

func (o queryFunc) query(r *memorydpb.QueryRequest) { o(r) }

// TopK is the most hits. Default 10.
func TopK(hits int32) QueryOption {
	return queryFunc(func(r *memorydpb.QueryRequest) { r.TopK = hits })
}

// Neighbours returns this many messages of the thread before and after each hit, 0 to 10.
func Neighbours(messages int32) QueryOption {
	return queryFunc(func(r *memorydpb.QueryRequest) { r.Neighbours = messages })
}

// ScoreThreshold is the least cosine between the word vectors of hit and query, -1 to 1.
func ScoreThreshold(cosine float64) QueryOption {
	return queryFunc(func(r *memorydpb.QueryRequest) { r.ScoreThreshold = &cosine })
}

// VectorThreshold is the cosine from which a text without a word of the query is found.
func VectorThreshold(cosine float64) QueryOption {
	return queryFunc(func(r *memorydpb.QueryRequest) { r.VectorThreshold = &cosine })
}

// TokenBudget is the most tokens of all hits.
func TokenBudget(tokens int64) QueryOption {
	return queryFunc(func(r *memorydpb.QueryRequest) { r.TokenBudget = &tokens })
}

// Passages cuts long texts to their best passage.
func Passages() QueryOption {
	return queryFunc(func(r *memorydpb.QueryRequest) { r.Passages = true })
}

// PartsOfScore returns what each score is made of.
func PartsOfScore() QueryOption {
	return queryFunc(func(r *memorydpb.QueryRequest) { r.PartsOfScore = true })
}

// WithoutBlocks leaves out the knowledge of blocks.
func WithoutBlocks() QueryOption {
	return queryFunc(func(r *memorydpb.QueryRequest) { r.WithoutBlocks = true })
}

type contextFunc func(*memorydpb.UpdateContextRequest)

func (o contextFunc) context(r *memorydpb.UpdateContextRequest) { o(r) }

// KnownPrefix is the stable_prefix_hash of an earlier reply. The reply says whether it still holds:
// a model's cached prefix is valid then.
func KnownPrefix(hash string) ContextOption {
	return contextFunc(func(r *memorydpb.UpdateContextRequest) { r.KnownPrefixHash = hash })
}

// AlternateRoles has human and assistant messages alternate after the system messages.
func AlternateRoles() ContextOption {
	return contextFunc(func(r *memorydpb.UpdateContextRequest) { r.AlternateRoles = true })
}
