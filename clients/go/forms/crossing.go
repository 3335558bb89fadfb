package forms

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

const maxName = 64

// OpenAI takes ids of 40 characters, Anthropic these characters.
var fitID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)

// crossing has the ids and names of one conversation, each id the same wherever it stands.
type crossing struct {
	// Ids in messages that are given as they were put, which stay.
	kept    map[string]bool
	unnamed int
	// Ids made for calls without one, and the tool of each, until a result takes it.
	open []openCall
}

type openCall struct{ made, name string }

func (c *crossing) callID(call *memorydpb.ToolCall) string {
	if call.GetCallId() != "" {
		return c.fit(call.GetCallId())
	}
	c.unnamed++
	made := fmt.Sprintf("call_without_id_%d", c.unnamed)
	c.open = append(c.open, openCall{made, call.GetName()})
	return made
}

// answered returns the id of the call that is answered; "" for a result of none.
func (c *crossing) answered(result *memorydpb.ToolResult) string {
	if result.GetCallId() != "" {
		return c.fit(result.GetCallId())
	}
	at := slices.IndexFunc(c.open, func(one openCall) bool { return one.name == result.GetName() })
	if at < 0 {
		return ""
	}
	made := c.open[at].made
	c.open = slices.Delete(c.open, at, at+1)
	return made
}

func (c *crossing) toolName(name string) string {
	characters := []rune(name)
	made := strings.Map(func(one rune) rune {
		if one == '_' || one == '-' || 'a' <= one && one <= 'z' || 'A' <= one && one <= 'Z' || '0' <= one && one <= '9' {
			return one
		}
		return '_'
	}, string(characters[:min(len(characters), maxName)]))
	if made == "" {
		return "tool"
	}
	return made
}

func (c *crossing) fit(given string) string {
	if c.kept[given] || fitID.MatchString(given) {
		return given
	}
	return "call_" + hashOf(given)[:32]
}
