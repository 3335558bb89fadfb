package memoryd

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// User is a handle of what all conversations know of a user: what is said in one of them is known in
// the next. It follows the conventions of all clients:
//
//   - The user has a session of its own, [User.Session], with the user as its subject. Its
//     chat_history_token_ratio is 0 by default, so that its blocks are fed with each turn when the
//     next one begins.
//   - A conversation is a session with the same subject and a block `user` of kind `session`, which
//     shows the user's session and hands messages on to it.
//   - [Client.EraseSubject] removes all of these.
//
// It works without a model, by words and, where the server has word vectors, by meaning. With a
// model, give the user's session a block of facts: [WithMemory].
type User struct {
	client *Client
	name   string
}

// User returns the handle of a user, such as an account's id. It must not be blank, have control or
// invisible characters, or exceed 256 bytes; the calls say so.
func (c *Client) User(name string) *User { return &User{client: c, name: name} }

// userCall is what the options of [User.Remember] and [User.Context] say.
type userCall struct {
	config, memory           *SessionConfig
	template, memoryTemplate string
	recalled                 int
	wait                     time.Duration
	requestID                string
}

type (
	// RememberOption is an option of [User.Remember].
	RememberOption interface{ remember(*userCall) }
	// ConversationOption is an option of [User.Context].
	ConversationOption interface{ converse(*userCall) }
)

// MemoryOption is what [WithMemory] and [WithMemoryTemplate] return.
type MemoryOption func(*userCall)

func (o MemoryOption) remember(u *userCall) { o(u) }
func (o MemoryOption) converse(u *userCall) { o(u) }

// WithMemory is the configuration of the user's own session if the call creates it. An existing one
// keeps its own.
func WithMemory(config *SessionConfig) MemoryOption {
	return func(u *userCall) { u.memory = config }
}

// WithMemoryTemplate names the template of the user's own session if the call creates it. Beside it
// [WithMemory] may set time_zone only.
func WithMemoryTemplate(name string) MemoryOption {
	return func(u *userCall) { u.memoryTemplate = name }
}

type conversationFunc func(*userCall)

func (o conversationFunc) converse(u *userCall) { o(u) }

// Recalled is the most messages that a context recalls. Default 5; 0: none.
func Recalled(messages int) ConversationOption {
	return conversationFunc(func(u *userCall) { u.recalled = messages })
}

// Session returns the handle of the user's own session, as [SessionOf] names it.
func (u *User) Session() (*Session, error) {
	id, err := SessionOf(u.name)
	if err != nil {
		return nil, err
	}
	return u.client.Session(id), nil
}

// Remember puts something to remember into the user's own session. Any number of processes may do
// so in parallel: everything is stored, and once.
func (u *User) Remember(
	ctx context.Context, messages []*Message, options ...RememberOption,
) (*memorydpb.PutResponse, error) {
	how := &userCall{}
	for _, option := range options {
		option.remember(how)
	}
	if len(messages) == 0 {
		return nil, invalid("messages", "must not be empty")
	}
	own, err := u.own(how)
	if err != nil {
		return nil, err
	}
	reply, _, err := u.client.putWanted(ctx, own, messages, how)
	return reply, namingTheUser(err)
}

// RememberText remembers a text as said by the user.
func (u *User) RememberText(
	ctx context.Context, text string, options ...RememberOption,
) (*memorydpb.PutResponse, error) {
	if strings.TrimSpace(text) == "" {
		return nil, invalid("text", "must not be blank")
	}
	return u.Remember(ctx, []*Message{Text("user", text)}, options...)
}

// Recall returns what is known about the user and matches the query, the best first: messages of any
// conversation, and facts with their evidence. [TextOfHit] and [SaidAt] read a hit. Empty: nothing
// is known.
func (u *User) Recall(
	ctx context.Context, query string, options ...QueryOption,
) (*memorydpb.QueryResponse, error) {
	own, err := u.Session()
	if err != nil {
		return nil, err
	}
	return own.Query(ctx, query, options...)
}

// UserContext is the context of a conversation with a user.
type UserContext struct {
	// The reply of Get, with a message of recalled texts.
	*memorydpb.GetResponse
	// What was recalled, oldest first.
	Recalled []*Hit
}

// Context puts the new messages of a conversation with the user, and returns the context for the
// next model call: the conversation within its token limit, the knowledge of its blocks, that of the
// user's blocks between `<user>` tags, and matching messages of earlier conversations before the
// newest message of the user.
//
// Session is the conversation's id. Messages are those since the last call, such as the model's last
// answer and the user's next question; none: nothing is put. At most a tenth of the token limit is
// recalled, each text with its date in the conversation's time_zone.
//
// If the session is not a conversation with this user, the error is [ErrNotTheUsers].
func (u *User) Context(
	ctx context.Context, session string, messages []*Message, options ...ConversationOption,
) (*UserContext, error) {
	how := &userCall{recalled: mostRecalled}
	for _, option := range options {
		option.converse(how)
	}
	own, err := u.own(how)
	if err != nil {
		return nil, err
	}
	conversation, err := u.conversation(session, how)
	if err != nil {
		return nil, err
	}
	if _, err := u.client.makeWanted(ctx, own); err != nil {
		return nil, namingTheUser(err)
	}
	_, inForce, err := u.client.putWanted(ctx, conversation, messages, how)
	if err != nil {
		return nil, namingTheUser(err)
	}
	reply, err := u.client.Session(session).Get(ctx)
	if err != nil {
		return nil, err
	}
	return u.client.recalled(ctx, session, reply, inForce.GetTimeZone(), how.recalled)
}

// namingTheUser has what the server does not take in a subject be an error of the user.
func namingTheUser(err error) error {
	found := asError(err)
	if found == nil || found.Code != codes.InvalidArgument || found.Field != "config.subject" {
		return err
	}
	return invalid("user", "%s", strings.TrimPrefix(found.Message, "config.subject: "))
}
