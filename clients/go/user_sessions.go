package memoryd

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// A session whose configuration changes that often while it is being put to is not put to.
const userTries = 12

// wanted is a session of a user's, and of what it is made where there is none: config, or template
// with what may stand beside it. shown is the session that a conversation shows.
type wanted struct {
	id       string
	user     string
	config   *SessionConfig
	template string
	shown    string
}

// inSteps reports whether the session is to have a block that its template has not.
func (w *wanted) inSteps() bool { return w.template != "" && w.shown != "" }

// own returns the user's own session.
func (u *User) own(how *userCall) (*wanted, error) {
	id, err := SessionOf(u.name)
	if err != nil {
		return nil, err
	}
	if err := checkTemplate(how.memoryTemplate, how.memory, "memory"); err != nil {
		return nil, err
	}
	make := MemoryConfig
	if how.memoryTemplate != "" {
		make = plainMemory
	}
	config, err := make(u.name, how.memory)
	return &wanted{id: id, user: u.name, config: config, template: how.memoryTemplate}, err
}

// conversation returns a session that shows the user's own.
func (u *User) conversation(session string, how *userCall) (*wanted, error) {
	if err := checkConversation(session); err != nil {
		return nil, err
	}
	if err := checkTemplate(how.template, how.config, "config"); err != nil {
		return nil, err
	}
	own, err := SessionOf(u.name)
	if err != nil {
		return nil, err
	}
	make := ConversationConfig
	if how.template != "" {
		make = plainConversation
	}
	config, err := make(u.name, how.config)
	return &wanted{id: session, user: u.name, config: config, template: how.template, shown: own}, err
}

func plainMemory(user string, config *SessionConfig) (*SessionConfig, error) {
	return configOf(user, config, "memory")
}

func plainConversation(user string, config *SessionConfig) (*SessionConfig, error) {
	return configOf(user, config, "config")
}

// putWanted puts to a session that is the user's, and returns the configuration in force too. That
// goes along, which makes the session where there is none and has the Put refused where another one
// is in force: it is never put to a session that is somebody else's by then.
func (c *Client) putWanted(
	ctx context.Context, w *wanted, messages []*Message, how *userCall,
) (*memorydpb.PutResponse, *SessionConfig, error) {
	id := how.requestID
	if id == "" {
		id = newRequestID()
	}
	session := c.Session(w.id)
	inForce, template, err := c.firstOf(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	var revision *int64
	for attempt := 0; ; attempt++ {
		options := []PutOption{RequestID(id), WithTemplate(template)}
		if revision == nil {
			options = append(options, WithConfig(inForce))
		} else {
			options = append(options, IfRevision(*revision))
		}
		if how.wait != 0 {
			options = append(options, Wait(how.wait))
		}
		reply, err := session.Put(ctx, messages, options...)
		if err == nil {
			return reply, inForce, nil
		}
		if !refusedForConfig(err) || attempt == userTries-1 {
			return nil, nil, err
		}
		revision = nil
		info, err := session.Info(ctx)
		if status.Code(err) == codes.NotFound { // It was deleted meanwhile.
			if inForce, template, err = c.firstOf(ctx, w); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if inForce, err = w.check(info); err != nil {
			return nil, nil, err
		}
		template = ""
		if attempt%2 == 1 {
			// One that a server of a later version understands better than this client.
			revision = &info.Revision
		}
	}
}

// refusedForConfig reports whether a Put was refused for its configuration. An id is reused too
// where an earlier try was done with another form of the configuration.
func refusedForConfig(err error) bool {
	return errors.Is(err, ErrConfigMismatch) || errors.Is(err, ErrRevisionMismatch) ||
		errors.Is(err, ErrRequestIDReused)
}

// firstOf returns the configuration and the template to put with first.
func (c *Client) firstOf(ctx context.Context, w *wanted) (*SessionConfig, string, error) {
	if !w.inSteps() {
		return w.config, w.template, nil
	}
	// A Put would make it without its block.
	made, err := c.makeWanted(ctx, w)
	return made, "", err
}

// makeWanted makes the session where there is none. It returns the configuration in force.
func (c *Client) makeWanted(ctx context.Context, w *wanted) (*SessionConfig, error) {
	session := c.Session(w.id)
	for attempt := 0; ; attempt++ {
		isLast, isNew := attempt == userTries-1, false
		info, err := session.Info(ctx)
		if status.Code(err) == codes.NotFound {
			info, err = session.Create(ctx, w.config, WithTemplate(w.template))
			if errors.Is(err, ErrSessionExists) && !isLast {
				continue // Another process was faster.
			}
			isNew = true
		}
		if err != nil {
			return nil, err
		}
		if !w.lacksItsBlock(info) {
			return w.check(info)
		}
		for _, block := range info.GetConfig().GetBlocks() {
			if block.GetName() != userBlock {
				continue
			}
			if isNew { // Nobody asked for a session that shows no user.
				if _, err := session.Delete(ctx, IfRevision(info.GetRevision())); err != nil {
					return nil, err
				}
			}
			return nil, invalid("template", "%q has a block %q, the name of that which shows the "+
				"user's session. Give its block another", w.template, userBlock)
		}
		blocks := append(info.GetConfig().GetBlocks(), blockOf(w.shown))
		info, err = session.Update(ctx, &SessionConfig{Blocks: blocks}, IfRevision(info.GetRevision()))
		if err == nil {
			return w.check(info)
		}
		changed := errors.Is(err, ErrRevisionMismatch) || status.Code(err) == codes.NotFound
		if !changed || isLast {
			return nil, err
		}
	}
}

// lacksItsBlock reports whether the session was made from the template for this conversation and
// nothing came of it since.
func (w *wanted) lacksItsBlock(info *SessionInfo) bool {
	return w.inSteps() && info.GetTemplate() == w.template &&
		info.GetConfig().GetSubject() == w.user &&
		info.GetActiveCount()+info.GetArchivedCount()+info.GetContentCount() == 0 &&
		!shows(info.GetConfig(), w.shown)
}

// check returns the configuration in force of a session that is the user's.
func (w *wanted) check(info *SessionInfo) (*SessionConfig, error) {
	found := info.GetConfig()
	if found.GetSubject() == w.user && (w.shown == "" || shows(found, w.shown)) {
		return found, nil
	}
	text := fmt.Sprintf("session: %q is there and its subject is not the user: change that by "+
		"Session.Update", w.id)
	if w.shown != "" {
		text = fmt.Sprintf("session: %q is there and not a conversation with this user; give another "+
			"session, or make this one the user's, with all that it holds, by Session.Update with "+
			"ConversationConfig", w.id)
	}
	return nil, &Error{
		Code: codes.FailedPrecondition, Reason: ErrNotTheUsers, Field: "session", Message: text,
	}
}
