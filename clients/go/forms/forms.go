package forms

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// form is how messages of a form become parts, and are made of them.
type form interface {
	taken(message *object) (*taking, *object)
	canonical(message *memorydpb.Message, parts []*memorydpb.Part, c *crossing) []*object
	blocksOf(parts []*memorydpb.Part) []*object
}

const (
	ofOpenAI    = "openai"
	ofAnthropic = "anthropic"
)

var (
	// What a model says at once is several messages in these forms.
	ofItems = []string{"openai-responses", "openai-agents-js"}

	openAIKeys = []string{
		"tool_calls", "tool_call_id", "function_call", "name", "refusal", "audio", "annotations",
		"reasoning", "reasoning_content", "reasoning_details",
	}
	openAIRoles     = []string{"developer", "tool", "function"}
	openAIParts     = []string{"image_url", "video_url", "input_audio", "file", "refusal", "input_text", "output_text"}
	anthropicKinds  = []string{"image", "document", "thinking", "redacted_thinking", "search_result", "container_upload"}
	contentsOfThese = []string{
		"content", "tool_calls", "function_call", "refusal", "audio", "reasoning_content", "reasoning",
	}
)

// From converts messages of either form; the package comment says how the form is found. A message
// is JSON as bytes, or a value that [json.Marshal] makes JSON of, such as a parameter of the openai
// or the anthropic package. A *memorydpb.Message stays as it is. An error names the place, such as
// `messages[1].content`.
func From(messages ...any) ([]*memorydpb.Message, error) {
	return from("", messages)
}

// FromOpenAI converts messages of OpenAI's form, as [From] does.
func FromOpenAI(messages ...any) ([]*memorydpb.Message, error) {
	return from(ofOpenAI, messages)
}

// FromAnthropic converts messages of Anthropic's form, as [From] does.
func FromAnthropic(messages ...any) ([]*memorydpb.Message, error) {
	return from(ofAnthropic, messages)
}

// ToOpenAI returns stored messages in the form of OpenAI's chat completions, each as JSON.
func ToOpenAI(messages []*memorydpb.Message) []json.RawMessage {
	var made []json.RawMessage
	for _, one := range inForm(messages, ofOpenAI, openAI{}) {
		made = append(made, json.RawMessage(write(one.message)))
	}
	return made
}

// AnthropicMessages are messages in Anthropic's form: two fields of a request.
type AnthropicMessages struct {
	// The system messages: the content of a single one, else a list of text blocks. Nil: none.
	System   json.RawMessage   `json:"system,omitempty"`
	Messages []json.RawMessage `json:"messages"`
}

// ToAnthropic returns stored messages in Anthropic's form. Messages of the roles system and
// developer go into System. Results that were put one by one in OpenAI's form are joined. Messages
// without content are left out.
func ToAnthropic(messages []*memorydpb.Message) AnthropicMessages {
	var given []*object
	var system []any
	// Whether the last message is one of results that others may join.
	isOpen := false
	for _, one := range inForm(messages, ofAnthropic, anthropic{}) {
		isResult := isTool(one.stored.message.GetRole()) && !one.isAsPut
		content := one.message.get("content")
		blocks, isList := content.([]any)
		isOwn := one.stored.form == ofAnthropic && one.isAsPut
		switch {
		case isSystem(roleOf(one.message)) && (len(given) == 0 || !isOwn):
			system = append(system, content)
		case isResult && isOpen && isList:
			last := given[len(given)-1]
			joined := append(objectsIn(last.get("content")), objectsIn(blocks)...)
			last.set("content", listOf(resultsFirst(joined)))
		default:
			given = append(given, one.message)
			isOpen = isResult && isList
		}
	}
	made := AnthropicMessages{Messages: []json.RawMessage{}}
	for _, message := range given {
		made.Messages = append(made.Messages, json.RawMessage(write(message)))
	}
	switch len(system) {
	case 0:
	case 1:
		made.System = json.RawMessage(write(system[0]))
	default:
		var blocks []*object
		for _, content := range system {
			blocks = append(blocks, asBlocks(content)...)
		}
		made.System = json.RawMessage(write(listOf(blocks)))
	}
	return made
}

// As decodes messages into values of a package, such as openai.ChatCompletionMessageParamUnion or
// anthropic.MessageParam.
func As[T any](messages []json.RawMessage) ([]T, error) {
	made := make([]T, len(messages))
	for at, message := range messages {
		if err := json.Unmarshal(message, &made[at]); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", at, err)
		}
	}
	return made, nil
}

func from(name string, messages []any) ([]*memorydpb.Message, error) {
	made := make([]*memorydpb.Message, len(messages))
	for at, message := range messages {
		if is, isStored := message.(*memorydpb.Message); isStored {
			made[at] = is
			continue
		}
		one, err := messageOf(message, name)
		if err != nil {
			return nil, fmt.Errorf("messages[%d]%w", at, err)
		}
		made[at] = one
	}
	return made, nil
}

func messageOf(given any, name string) (*memorydpb.Message, error) {
	var text []byte
	switch given := given.(type) {
	case json.RawMessage:
		text = given
	case []byte:
		text = given
	default:
		var err error
		if text, err = json.Marshal(given); err != nil {
			return nil, fmt.Errorf(": is not made JSON: %w", err)
		}
	}
	value, isJSON := parse(strings.ToValidUTF8(string(text), "\ufffd"))
	if !isJSON {
		return nil, fmt.Errorf(": must be JSON")
	}
	plain, is := value.(*object)
	if !is {
		return nil, fmt.Errorf(": must be a message of OpenAI's or Anthropic's form")
	}
	plain = withoutAnswer(plain)
	if err := check(plain); err != nil {
		return nil, err
	}
	if name == "" {
		name = formOf(plain)
	}
	rules := []form{openAI{}}
	switch name {
	case ofAnthropic:
		rules = []form{anthropic{}}
	case both:
		rules = append(rules, anthropic{})
	}
	// What is the same in both is taken as OpenAI's.
	t, template := rules[0].taken(plain)
	made := &memorydpb.Message{Role: roleOf(plain), Name: t.name, Parts: t.parts}
	if len(t.parts) == 1 {
		if first, is := t.parts[0].GetKind().(*memorydpb.Part_Text); is {
			made.Text, made.Parts = &first.Text, nil
		}
	}
	// Whether the parts alone restore the message.
	saysAll := !slices.ContainsFunc(rules, func(one form) bool {
		said := one.canonical(made, t.parts, &crossing{})
		return len(said) != 1 || !equal(said[0], plain)
	})
	if saysAll {
		template = nil
	}
	writeTemplate(made, name, template, newObject())
	return made, nil
}

// withoutAnswer removes what Anthropic's answers have besides, for which a request has no place.
func withoutAnswer(message *object) *object {
	if message.get("type") != "message" || !message.has("usage") {
		return message
	}
	made := newObject()
	for _, name := range message.keys {
		if name == "role" || name == "content" {
			made.set(name, message.get(name))
		}
	}
	return made
}

// formed is a message in a form.
type formed struct {
	message *object
	stored  *stored
	// Whether it was put so.
	isAsPut bool
}

func inForm(messages []*memorydpb.Message, name string, rules form) []formed {
	found := whole(messages)
	put := make([]*object, len(found))
	ahead := make([][]*memorydpb.Part, len(found))
	c := &crossing{kept: make(map[string]bool)}
	for at, one := range found {
		if one.form != name && one.form != both {
			continue
		}
		put[at], ahead[at] = one.asPut()
		if put[at] == nil {
			continue
		}
		for _, part := range one.parts {
			c.kept[part.GetToolCall().GetCallId()] = true
			c.kept[part.GetToolResult().GetCallId()] = true
		}
	}
	var made []formed
	for at, one := range found {
		if put[at] == nil {
			for _, message := range rules.canonical(one.message, one.parts, c) {
				made = append(made, formed{message, one, false})
			}
			continue
		}
		// The text of memory stands before a message's own content, but after results.
		if len(ahead[at]) > 0 {
			blocks := append(rules.blocksOf(ahead[at]), asBlocks(put[at].get("content"))...)
			put[at].set("content", listOf(resultsFirst(blocks)))
		}
		made = append(made, formed{put[at], one, true})
	}
	return made
}

// whole returns the messages, with what an assistant said at once as one message.
func whole(messages []*memorydpb.Message) []*stored {
	var made, run []*stored
	end := func() {
		if len(run) == 1 {
			made = append(made, run[0])
		} else if len(run) > 1 {
			joined := proto.CloneOf(run[len(run)-1].message)
			joined.Text, joined.Parts, joined.MetadataJson = nil, nil, ""
			for _, one := range run {
				joined.Parts = append(joined.Parts, one.parts...)
			}
			made = append(made, storedOf(joined))
		}
		run = nil
	}
	for _, message := range messages {
		one := storedOf(message)
		if isAssistant(message.GetRole()) && slices.Contains(ofItems, one.form) {
			run = append(run, one)
			continue
		}
		end()
		made = append(made, one)
	}
	end()
	return made
}

func asBlocks(content any) []*object {
	if text, is := content.(string); is {
		if text == "" {
			return nil
		}
		return []*object{textBlock(text)}
	}
	return objectsIn(content)
}

func formOf(message *object) string {
	role := roleOf(message)
	if slices.Contains(openAIRoles, role) || slices.ContainsFunc(openAIKeys, message.has) {
		return ofOpenAI
	}
	list, isList := message.get("content").([]any)
	blocks := objectsIn(list)
	kindsHave := func(is func(string) bool) bool {
		return slices.ContainsFunc(blocks, func(block *object) bool {
			kind, isText := block.text("type")
			return isText && is(kind)
		})
	}
	if kindsHave(func(kind string) bool {
		return slices.Contains(anthropicKinds, kind) || strings.HasSuffix(kind, "tool_use") ||
			strings.HasSuffix(kind, "tool_result")
	}) {
		return ofAnthropic
	}
	if kindsHave(func(kind string) bool { return slices.Contains(openAIParts, kind) }) {
		return ofOpenAI
	}
	if message.get("type") == "message" || (isList && len(list) == 0) {
		return ofAnthropic
	}
	var said []string
	if content, is := message.text("content"); is {
		said = []string{content}
	}
	isText := false
	for _, block := range blocks {
		if block.get("type") != "text" {
			continue
		}
		isText = true
		if block.has("cache_control") || block.has("citations") {
			return ofAnthropic
		}
		if text, is := block.text("text"); is {
			said = append(said, text)
		}
	}
	if slices.ContainsFunc(said, func(text string) bool { return !hasWords(text) }) {
		if isText && role == "assistant" {
			return ofAnthropic
		}
		return ofOpenAI
	}
	if message.get("content") == nil {
		return ofOpenAI
	}
	return both
}

// check returns an error if the message has neither form.
func check(message *object) error {
	role, is := message.text("role")
	if !is || role == "" {
		return fmt.Errorf(".role: must be a text such as \"user\"; got %s", write(message.get("role")))
	}
	if !isPlain(role) {
		return fmt.Errorf(".role: holds half a character, which UTF-8 has not")
	}
	if !slices.ContainsFunc(contentsOfThese, message.has) {
		return fmt.Errorf(".content: is missing. Give a text, a list of parts, or null")
	}
	switch message.get("content").(type) {
	case nil, string, []any:
	default:
		return fmt.Errorf(".content: must be a text, a list of parts or null")
	}
	for _, name := range []string{"content", "tool_calls"} {
		if err := checkItems(message.get(name), "."+name); err != nil {
			return err
		}
	}
	return nil
}

func checkItems(value any, field string) error {
	items, _ := value.([]any)
	for at, item := range items {
		block, is := item.(*object)
		if !is {
			return fmt.Errorf(`%s[%d]: must be an object with a "type", such as {"type": "text", "text": "hi"}`, field, at)
		}
		inside := block
		if source, is := block.get("source").(*object); is && block.get("type") == document {
			inside = source
		}
		switch block.get("type") {
		case document, "tool_result", "search_result":
			if err := checkItems(inside.get("content"), fmt.Sprintf("%s[%d].content", field, at)); err != nil {
				return err
			}
		}
	}
	return nil
}
