package memoryd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	userPrefix = "memoryd.user"
	maxIDBytes = 256
	// The block of a conversation that shows the user's session.
	userBlock = "user"
)

// SessionOf returns the id of a user's own session: `memoryd.user/` and the user. `%` and characters
// that are not printable become the `%XX` of their UTF-8. If that is longer than 256 bytes, it is
// `memoryd.user#` and the SHA-256 of the user. No two users share a session.
func SessionOf(user string) (string, error) {
	if err := checkUser(user); err != nil {
		return "", err
	}
	var named strings.Builder
	named.WriteString(userPrefix + "/")
	for _, one := range user {
		if one != '%' && unicode.IsPrint(one) {
			named.WriteRune(one)
			continue
		}
		for _, octet := range []byte(string(one)) {
			fmt.Fprintf(&named, "%%%02X", octet)
		}
	}
	if named.Len() <= maxIDBytes {
		return named.String(), nil
	}
	sum := sha256.Sum256([]byte(user))
	return userPrefix + "#" + hex.EncodeToString(sum[:]), nil
}

// MemoryConfig returns the configuration of a user's own session: config, which may be nil, with the
// user as its subject and, by default, chat_history_token_ratio 0.
func MemoryConfig(user string, config *SessionConfig) (*SessionConfig, error) {
	made, err := configOf(user, config, "memory")
	if err != nil {
		return nil, err
	}
	if made.ChatHistoryTokenRatio == nil {
		made.ChatHistoryTokenRatio = proto.Float64(0)
	}
	return made, nil
}

// ConversationConfig returns the configuration of a conversation with a user: config, which may be
// nil, with the user as its subject. Its last block, `user`, shows the user's session.
func ConversationConfig(user string, config *SessionConfig) (*SessionConfig, error) {
	made, err := configOf(user, config, "config")
	if err != nil {
		return nil, err
	}
	own, err := SessionOf(user)
	if err != nil || shows(made, own) {
		return made, err
	}
	for _, block := range made.GetBlocks() {
		if block.GetName() == userBlock {
			return nil, invalid("config.blocks",
				"%q is the name of the block that shows the user's session. Give yours another",
				userBlock)
		}
	}
	made.Blocks = append(made.Blocks, blockOf(own))
	return made, nil
}

func blockOf(session string) *Block {
	return SessionBlock{BlockOptions: BlockOptions{Name: userBlock}, SessionID: session}.Block()
}

// shows reports whether a block shows the session.
func shows(config *SessionConfig, session string) bool {
	for _, block := range config.GetBlocks() {
		var options struct {
			SessionID string `json:"session_id"`
		}
		if block.GetKind() == "session" &&
			json.Unmarshal([]byte(block.GetOptionsJson()), &options) == nil &&
			options.SessionID == session {
			return true
		}
	}
	return false
}

func configOf(user string, given *SessionConfig, field string) (*SessionConfig, error) {
	if err := checkUser(user); err != nil {
		return nil, err
	}
	made := &SessionConfig{}
	if given != nil {
		made = proto.CloneOf(given)
	}
	if made.Subject != nil && made.GetSubject() != user {
		return nil, invalid(field+".subject", "must be the user, %q; got %q. Leave it out",
			user, made.GetSubject())
	}
	made.Subject = &user
	return made, nil
}

// checkTemplate refuses a config that says what the template says: the server would refuse it by the
// name of another argument.
func checkTemplate(template string, config *SessionConfig, field string) error {
	if template == "" || config == nil {
		return nil
	}
	var other protoreflect.Name
	config.ProtoReflect().Range(func(one protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if one.Name() != "subject" && one.Name() != "time_zone" {
			other = one.Name()
		}
		return other == ""
	})
	if other != "" {
		return invalid(field, "may have subject and time_zone alone beside a template; got %s", other)
	}
	return nil
}

func checkUser(user string) error {
	switch {
	case !utf8.ValidString(user):
		return invalid("user", "must be UTF-8; got %q", user)
	case strings.TrimSpace(user) == "":
		return invalid("user", "must name one user; got %q", user)
	case len(user) > maxIDBytes:
		return invalid("user", "must be at most %d bytes; got %d", maxIDBytes, len(user))
	}
	for _, one := range user {
		// Joiners are letters' own in Persian and Indic names: the server decides.
		joiner := one == '\u200c' || one == '\u200d'
		if unicode.In(one, unicode.Cc, unicode.Zl, unicode.Zp) || unicode.Is(unicode.Cf, one) && !joiner {
			return invalid("user", "must not hold control or invisible characters; got %+q", user)
		}
	}
	return nil
}

func checkConversation(session string) error {
	switch {
	case strings.TrimSpace(session) == "":
		return invalid("session", "must name one conversation; got %q", session)
	case strings.HasPrefix(session, userPrefix+"/"), strings.HasPrefix(session, userPrefix+"#"):
		return invalid("session", "%q is the name of a user's own session. Give the conversation "+
			"another, or use Remember", session)
	}
	return nil
}
