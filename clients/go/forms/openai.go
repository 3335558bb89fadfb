package forms

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// openAI is the form of OpenAI's chat completions.
type openAI struct{}

// The keys of texts. The last two types are of the Responses API.
var openAITexts = map[string]string{
	"text": "text", "refusal": "refusal", "input_text": "text", "output_text": "text",
}

func (openAI) taken(message *object) (*taking, *object) {
	calls, isList := message.get("tool_calls").([]any)
	t := newTaking(len(calls) + 2)
	made := message.clone()
	if isTool(roleOf(message)) {
		openAIResult(t, made)
		return t, made
	}
	made.put("name", t.speaker(made.get("name")))
	// Where vendors put a model's reasoning.
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if text, is := made.text(name); is && text != "" {
			thinking, _ := t.thinking(text, nil)
			made.set(name, thinking)
			break
		}
	}
	switch content := made.get("content").(type) {
	case string:
		made.set("content", t.text(content))
	case []any:
		list := make([]any, len(content))
		for at, part := range content {
			list[at] = openAIPart(t, part.(*object))
		}
		made.set("content", list)
	}
	if text, is := made.text("refusal"); is {
		made.set("refusal", t.text(text))
	}
	if given, is := made.get("audio").(*object); is {
		own := given.clone()
		if text, is := own.text("transcript"); is {
			own.set("transcript", t.text(text))
		}
		if text, is := own.text("data"); is {
			own.set("data", t.data(audio, text, about{}))
		}
		made.set("audio", own)
	}
	if given, is := made.get("function_call").(*object); is {
		_, name, arguments := t.call(nil, given.get("name"), orEmpty(given.get("arguments")))
		own := given.clone()
		own.put("name", name)
		own.put("arguments", arguments)
		made.set("function_call", own)
	}
	if isList {
		list := make([]any, len(calls))
		for at, call := range calls {
			list[at] = openAICall(t, call.(*object))
		}
		made.set("tool_calls", list)
	}
	return t, made
}

func openAIPart(t *taking, part *object) any {
	kind, is := part.text("type")
	if !is {
		return t.opaque(part.get("type"), part)
	}
	if name := openAITexts[kind]; name != "" {
		if text, is := part.text(name); is {
			return part.with(name, t.text(text))
		}
	}
	inside, is := part.get(kind).(*object)
	if !is {
		return t.opaque(kind, part)
	}
	switch kind {
	case "image_url", "video_url":
		if url, is := inside.text("url"); is {
			medium := strings.TrimSuffix(kind, "_url")
			return part.with(kind, inside.with("url", t.url(medium, url, about{detail: inside.get("detail")})))
		}
	case "input_audio":
		if data, is := inside.text("data"); is {
			return part.with(kind, inside.with("data", t.data(audio, data, about{format: inside.get("format")})))
		}
	case "file":
		has := about{title: inside.get("filename")}
		if data, is := inside.text("file_data"); is {
			take := t.data
			if strings.HasPrefix(data, "data:") {
				take = t.url
			}
			return part.with(kind, inside.with("file_data", take(document, data, has)))
		}
		if id, is := inside.text("file_id"); is {
			return part.with(kind, inside.with("file_id", t.file(document, id, has)))
		}
	}
	return t.opaque(kind, part)
}

func openAICall(t *taking, call *object) *object {
	made := call.clone()
	kind, is := call.text("type")
	if call.get("type") == nil {
		kind, is = "function", true
	}
	inside, isObject := call.get(kind).(*object)
	if !is || !isObject {
		id, _, _ := t.call(call.get("id"), nil, "{}")
		made.put("id", id)
		return made
	}
	argument := "arguments"
	if kind == "custom" {
		argument = "input"
	}
	id, name, value := t.call(call.get("id"), inside.get("name"), orEmpty(inside.get(argument)))
	own := inside.clone()
	own.put("name", name)
	own.put(argument, value)
	made.put("id", id)
	made.set(kind, own)
	return made
}

func openAIResult(t *taking, made *object) {
	var texts []string
	content, isText := made.text("content")
	list, isList := made.get("content").([]any)
	if isText {
		texts = []string{content}
	}
	for _, part := range objectsIn(list) {
		if text, is := part.text("text"); is && part.get("type") == "text" {
			texts = append(texts, text)
		}
	}
	id, name, holes := t.result(made.get("tool_call_id"), made.get("name"), texts, false)
	made.put("tool_call_id", id)
	made.put("name", name)
	if isText {
		made.set("content", holes[0])
	} else if isList {
		own := make([]any, len(list))
		for at, part := range objectsIn(list) {
			if _, is := part.text("text"); is && part.get("type") == "text" {
				own[at], holes = part.with("text", holes[0]), holes[1:]
			} else {
				own[at] = openAIPart(t, part)
			}
		}
		made.set("content", own)
	}
}

func orEmpty(value any) any {
	if value == nil {
		return ""
	}
	return value
}

func (form openAI) canonical(message *memorydpb.Message, parts []*memorydpb.Part, c *crossing) []*object {
	role := message.GetRole()
	if isSystem(role) {
		var texts []*memorydpb.Part
		for _, text := range textsOf(parts) {
			texts = append(texts, textPart(text))
		}
		return []*object{newObject("role", role, "content", form.joined(texts))}
	}
	results, others := resultsIn(parts)
	if isTool(role) {
		if len(results) == 0 {
			results = []*memorydpb.ToolResult{{Name: message.GetName()}}
		}
		made := form.answers(results, c)
		last := made[len(made)-1]
		text, _ := last.text("content")
		last.set("content", text+strings.Join(textsOf(others), ""))
		if media := imagesAndDocuments(others); len(media) > 0 {
			made = append(made, newObject("role", "user", "content", form.joined(media)))
		}
		return made
	}
	answers := form.answers(results, c)
	if isAssistant(role) {
		return append([]*object{form.assistant(message, others, c)}, answers...)
	}
	if len(answers) > 0 && len(form.blocksOf(others)) == 0 {
		return answers
	}
	user := newObject("role", "user", "content", form.joined(others))
	if message.GetName() != "" {
		user.set("name", message.GetName())
	}
	return append(answers, user)
}

func (form openAI) answers(results []*memorydpb.ToolResult, c *crossing) []*object {
	var made []*object
	for _, result := range results {
		if id := c.answered(result); id != "" {
			made = append(made, newObject("role", "tool", "tool_call_id", id, "content", result.GetText()))
		} else {
			name := c.toolName(result.GetName())
			made = append(made, newObject("role", "function", "name", name, "content", result.GetText()))
		}
	}
	return made
}

func (form openAI) assistant(message *memorydpb.Message, parts []*memorydpb.Part, c *crossing) *object {
	var calls []any
	for _, part := range parts {
		if call := part.GetToolCall(); call != nil {
			function := newObject("name", c.toolName(call.GetName()), "arguments", call.GetArgumentsJson())
			calls = append(calls, newObject("id", c.callID(call), "type", "function", "function", function))
		}
	}
	var texts []*memorydpb.Part
	for _, text := range textsOf(parts) {
		texts = append(texts, textPart(text))
	}
	made := newObject("role", "assistant", "content", nil)
	if len(calls) == 0 || len(texts) > 0 {
		made.set("content", form.joined(texts))
	}
	if message.GetName() != "" {
		made.set("name", message.GetName())
	}
	if len(calls) > 0 {
		made.set("tool_calls", calls)
	}
	return made
}

// joined returns the content of these parts: a text where they are no more than that.
func (form openAI) joined(parts []*memorydpb.Part) any {
	blocks := form.blocksOf(parts)
	if len(blocks) == 0 {
		return ""
	}
	if len(blocks) == 1 && blocks[0].get("type") == "text" {
		return blocks[0].get("text")
	}
	return listOf(blocks)
}

func (openAI) blocksOf(parts []*memorydpb.Part) []*object {
	var made []*object
	for _, part := range parts {
		kind, media := mediaOf(part)
		switch kind {
		case image:
			made = append(made, openAIImage(media))
		case audio:
			made = append(made, openAIAudio(media))
		case document:
			made = append(made, openAIDocument(media))
		case video:
			if url := media.GetUrl(); strings.HasPrefix(url, "data:") {
				made = append(made, textBlock("[video]"))
			} else {
				made = append(made, textBlock("[video "+url+"]"))
			}
		default:
			if texts := textsOf([]*memorydpb.Part{part}); len(texts) > 0 {
				made = append(made, textBlock(texts[0]))
			}
		}
	}
	return made
}

func openAIImage(media *memorydpb.Media) *object {
	url := media.GetUrl()
	if media.Data != nil {
		mimeType := media.GetMimeType()
		if mimeType == "" {
			mimeType = "image/png"
		}
		url = dataURLOf(mimeType, media.GetData())
	}
	if url == "" {
		return textBlock("[image " + media.GetPath() + "]")
	}
	inside := newObject("url", url)
	if media.Detail != nil {
		inside.set("detail", media.GetDetail())
	}
	return newObject("type", "image_url", "image_url", inside)
}

func openAIAudio(media *memorydpb.Media) *object {
	format := media.GetFormat()
	if format == "" {
		format = media.GetMimeType()[strings.LastIndexByte(media.GetMimeType(), '/')+1:]
	}
	switch format {
	case "mpeg":
		format = "mp3"
	case "x-wav":
		format = "wav"
	}
	if len(media.GetData()) == 0 || (format != "wav" && format != "mp3") {
		return textBlock("[audio]")
	}
	data := base64.StdEncoding.EncodeToString(media.GetData())
	return newObject("type", "input_audio", "input_audio", newObject("data", data, "format", format))
}

func openAIDocument(media *memorydpb.Media) *object {
	mimeType, data, isHeld := heldBy(media)
	title := media.GetTitle()
	if !isHeld {
		place := media.GetUrl()
		if place == "" {
			place = media.GetPath()
		}
		return textBlock("[document " + joinWords(" ", title, place) + "]")
	}
	isPlain := strings.HasPrefix(mimeType, "text/") || mimeType == "" || mimeType == "application/json"
	if isPlain && utf8.Valid(data) {
		return textBlock(joinWords("\n", title, string(data)))
	}
	if mimeType == "" {
		mimeType = "application/octet-stream"
	}
	if title == "" {
		title = "document"
	}
	return newObject("type", "file", "file", newObject("filename", title, "file_data", dataURLOf(mimeType, data)))
}

func dataURLOf(mimeType string, data []byte) string {
	return "data:" + mimeType + ";base64," + base64.StdEncoding.EncodeToString(data)
}

func textBlock(text string) *object { return newObject("type", "text", "text", text) }

// joinWords joins the words that are not empty.
func joinWords(by string, words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), by)
}

func listOf(blocks []*object) []any {
	made := make([]any, len(blocks))
	for at, block := range blocks {
		made[at] = block
	}
	return made
}

func resultsIn(parts []*memorydpb.Part) ([]*memorydpb.ToolResult, []*memorydpb.Part) {
	var results []*memorydpb.ToolResult
	var others []*memorydpb.Part
	for _, part := range parts {
		if result := part.GetToolResult(); result != nil {
			results = append(results, result)
		} else {
			others = append(others, part)
		}
	}
	return results, others
}

func imagesAndDocuments(parts []*memorydpb.Part) []*memorydpb.Part {
	var made []*memorydpb.Part
	for _, part := range parts {
		if kind, _ := mediaOf(part); kind == image || kind == document {
			made = append(made, part)
		}
	}
	return made
}

func roleOf(message *object) string {
	role, _ := message.text("role")
	return role
}
