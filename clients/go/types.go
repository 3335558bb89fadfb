package memoryd

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// Messages of memorydpb that programs use most.
type (
	Message       = memorydpb.Message
	Part          = memorydpb.Part
	Media         = memorydpb.Media
	Content       = memorydpb.Content
	SessionConfig = memorydpb.SessionConfig
	SessionInfo   = memorydpb.Session
	Block         = memorydpb.Block
	Filter        = memorydpb.Filter
	Fact          = memorydpb.Fact
	Job           = memorydpb.Job
	Hit           = memorydpb.QueryResult
	Item          = memorydpb.Item
)

// Text returns a message with one text. Role is `user`, `assistant`, `system` or any other.
func Text(role, text string) *Message {
	return &Message{Role: role, Text: &text}
}

// Parts returns a message with parts.
func Parts(role string, parts ...*Part) *Message {
	return &Message{Role: role, Parts: parts}
}

// TextPart returns a part with a text.
func TextPart(text string) *Part {
	return &Part{Kind: &memorydpb.Part_Text{Text: text}}
}

// ToolCallPart returns a part of an assistant's message: a call of a tool with arguments in JSON.
func ToolCallPart(callID, name, argumentsJSON string) *Part {
	return &Part{Kind: &memorydpb.Part_ToolCall{ToolCall: &memorydpb.ToolCall{
		CallId: &callID, Name: name, ArgumentsJson: argumentsJSON,
	}}}
}

// ToolResultPart returns a part with the result of the call callID.
func ToolResultPart(callID, name, text string) *Part {
	return &Part{Kind: &memorydpb.Part_ToolResult{ToolResult: &memorydpb.ToolResult{
		CallId: &callID, Name: name, Text: text,
	}}}
}

// TextContent returns a content with a text.
func TextContent(text string) *Content {
	return &Content{MimeType: "text/plain", Value: &memorydpb.Content_Text{Text: text}}
}

// BytesContent returns a content with bytes.
func BytesContent(mimeType string, value []byte) *Content {
	return &Content{MimeType: mimeType, Value: &memorydpb.Content_BytesValue{BytesValue: value}}
}

// JSONContent returns a content with a value as encoding/json encodes it.
func JSONContent(value any) (*Content, error) {
	text, err := jsonOf(value)
	if err != nil {
		return nil, err
	}
	return &Content{MimeType: "application/json", Value: &memorydpb.Content_Json{Json: text}}, nil
}

// TextOf returns the texts of a message and of its parts, a line each.
func TextOf(message *Message) string {
	var texts []string
	if text := message.GetText(); text != "" {
		texts = append(texts, text)
	}
	for _, part := range message.GetParts() {
		if text := part.GetText(); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// TextOfHit returns the text of what a query found: for a message the texts of its parts, with
// [Passages] the passage. Empty: it has no text.
func TextOfHit(hit *Hit) string {
	if passage := hit.GetPassage(); passage != "" {
		return passage
	}
	known := hit.GetBlockItem()
	switch {
	case hit.GetMessage() != nil:
		return TextOf(hit.GetMessage())
	case hit.GetContent().GetText() != "":
		return hit.GetContent().GetText()
	case hit.GetContent() != nil:
		return hit.GetContent().GetJson()
	case known.GetFact() != nil:
		return known.GetFact().GetText()
	case known.GetEntity() != nil:
		return known.GetEntity().GetText()
	}
	return known.GetText()
}

// SaidAt returns when a hit was said: the message's create_time, else when it was put; for a fact or
// entity when it was last said. Zero: not known.
func SaidAt(hit *Hit) time.Time {
	known := hit.GetBlockItem()
	for _, found := range []*timestamppb.Timestamp{
		hit.GetMessage().GetCreateTime(), hit.GetMessage().GetIngestTime(),
		hit.GetContent().GetIngestTime(), known.GetFact().GetLastTime(),
		known.GetEntity().GetLastTime(),
	} {
		if found != nil {
			return found.AsTime()
		}
	}
	return time.Time{}
}

// jsonOf encodes a value as JSON, without the escapes for HTML. A json.RawMessage is checked.
func jsonOf(value any) (string, error) {
	var made strings.Builder
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("memoryd: %w", err)
	}
	return strings.TrimSuffix(made.String(), "\n"), nil
}

func durationOf(given time.Duration) *durationpb.Duration { return durationpb.New(given) }

// timestampOf returns nil for the zero time.
func timestampOf(given time.Time) *timestamppb.Timestamp {
	if given.IsZero() {
		return nil
	}
	return timestamppb.New(given)
}
