package forms

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// anthropic is the form of Anthropic's API.
type anthropic struct{}

var (
	imageTypes  = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
	imageBegins = []struct{ begin, mimeType string }{
		{"\xff\xd8\xff", "image/jpeg"}, {"\x89PNG", "image/png"}, {"GIF8", "image/gif"}, {"RIFF", "image/webp"},
	}
	webURL = regexp.MustCompile(`^https?://`)
)

func (anthropic) taken(message *object) (*taking, *object) {
	blocks, isList := message.get("content").([]any)
	count := 0
	for _, block := range objectsIn(blocks) {
		if kind := block.get("type"); kind == "tool_use" || kind == "tool_result" {
			count++
		}
	}
	t := newTaking(count)
	made := message.clone()
	if content, is := message.text("content"); is {
		made.set("content", t.text(content))
	} else if isList {
		made.set("content", anthropicBlocks(t, blocks))
	}
	return t, made
}

func anthropicBlocks(t *taking, blocks []any) []any {
	made := make([]any, len(blocks))
	for at, block := range blocks {
		made[at] = anthropicBlock(t, block.(*object))
	}
	return made
}

func anthropicBlock(t *taking, block *object) any {
	kind, _ := block.text("type")
	made := block.clone()
	text, isText := block.text("text")
	input, isInput := block.get("input").(*object)
	thought, isThought := block.text("thinking")
	content, isList := block.get("content").([]any)
	switch {
	case kind == "text" && isText:
		made.set("text", t.text(text))
	case (kind == image || kind == document) && anthropicSource(t, kind, made):
	case kind == "tool_use" && isInput:
		id, name, value := t.call(block.get("id"), block.get("name"), input)
		made.put("id", id)
		made.put("name", name)
		made.put("input", value)
	case kind == "tool_result":
		anthropicResult(t, made)
	case kind == "thinking" && isThought:
		thinking, signature := t.thinking(thought, block.get("signature"))
		made.set("thinking", thinking)
		made.put("signature", signature)
	case kind == "search_result" && isList:
		made.set("content", anthropicBlocks(t, content))
	default:
		return t.opaque(block.get("type"), block)
	}
	return made
}

// anthropicSource takes the source of an image or a document. It reports false for one of an
// unknown kind.
func anthropicSource(t *taking, kind string, made *object) bool {
	source, is := made.get("source").(*object)
	if !is {
		return false
	}
	var untyped about
	if kind == document {
		untyped.title = made.get("title")
	}
	typed := untyped
	typed.mimeType = source.get("media_type")
	data, isData := source.text("data")
	url, isURL := source.text("url")
	id, isID := source.text("file_id")
	content, isContent := source.text("content")
	list, isList := source.get("content").([]any)
	switch of := source.get("type"); {
	case of == "base64" && isData:
		source = source.with("data", t.data(kind, data, typed))
	case of == "text" && isData:
		source = source.with("data", t.plain(kind, data, typed))
	case of == "url" && isURL:
		source = source.with("url", t.url(kind, url, untyped))
	case of == "file" && isID:
		source = source.with("file_id", t.file(kind, id, untyped))
	case of == "content" && isContent:
		plain := untyped
		plain.mimeType = "text/plain"
		source = source.with("content", t.plain(kind, content, plain))
	case of == "content" && isList:
		source = source.with("content", anthropicBlocks(t, list))
	default:
		return false
	}
	made.set("source", source)
	return true
}

func anthropicResult(t *taking, made *object) {
	content, isText := made.text("content")
	list, isList := made.get("content").([]any)
	var texts []string
	if isText {
		texts = []string{content}
	}
	for _, block := range objectsIn(list) {
		texts = append(texts, textsInBlock(block)...)
	}
	id, _, holes := t.result(made.get("tool_use_id"), nil, texts, made.get("is_error") == true)
	made.put("tool_use_id", id)
	if isText {
		made.set("content", holes[0])
	} else if isList {
		own := make([]any, len(list))
		for at, block := range list {
			own[at] = inResult(t, block.(*object), &holes)
		}
		made.set("content", own)
	}
}

// textsInBlock returns the texts of a block of a result that belong to the answer's text.
func textsInBlock(block *object) []string {
	if text, is := block.text("text"); is && block.get("type") == "text" {
		return []string{text}
	}
	var made []string
	if block.get("type") == "search_result" {
		for _, inner := range objectsIn(block.get("content")) {
			made = append(made, textsInBlock(inner)...)
		}
	}
	return made
}

func inResult(t *taking, block *object, holes *[]any) any {
	if len(textsInBlock(block)) == 0 {
		return anthropicBlock(t, block)
	}
	if block.get("type") == "text" {
		next := (*holes)[0]
		*holes = (*holes)[1:]
		return block.with("text", next)
	}
	content, _ := block.get("content").([]any)
	own := make([]any, len(content))
	for at, inner := range content {
		own[at] = inResult(t, inner.(*object), holes)
	}
	return block.with("content", own)
}

// canonical returns the messages that the parts say. Of the role system it is one that belongs in
// `system`. Without content, which the API refuses, there is none.
func (form anthropic) canonical(message *memorydpb.Message, parts []*memorydpb.Part, c *crossing) []*object {
	role := message.GetRole()
	if isSystem(role) {
		var blocks []*object
		for _, text := range textsOf(parts) {
			if hasWords(text) {
				blocks = append(blocks, textBlock(text))
			}
		}
		return anthropicMessage("system", blocks)
	}
	results, others := resultsIn(parts)
	if isTool(role) {
		if len(results) == 0 {
			results = []*memorydpb.ToolResult{{Name: message.GetName()}}
		}
		last := proto.CloneOf(results[len(results)-1])
		last.Text += strings.Join(textsOf(others), "")
		results = append(slices.Clone(results[:len(results)-1]), last)
		others = imagesAndDocuments(others)
	}
	var answers []*object
	for _, result := range results {
		answers = append(answers, anthropicAnswer(result, c))
	}
	// The API takes results only ahead of anything else.
	answers = resultsFirst(answers)
	if isAssistant(role) {
		said := anthropicMessage("assistant", form.blocks(others, c, true))
		return append(said, anthropicMessage("user", answers)...)
	}
	return anthropicMessage("user", append(answers, form.blocks(others, c, false)...))
}

func (form anthropic) blocksOf(parts []*memorydpb.Part) []*object {
	return form.blocks(parts, &crossing{}, false)
}

// resultsFirst returns the blocks with results ahead of all others.
func resultsFirst(blocks []*object) []*object {
	var first, rest []*object
	for _, block := range blocks {
		if block.get("type") == "tool_result" {
			first = append(first, block)
		} else {
			rest = append(rest, block)
		}
	}
	return append(first, rest...)
}

func anthropicMessage(role string, blocks []*object) []*object {
	if len(blocks) == 0 {
		return nil
	}
	if len(blocks) == 1 && blocks[0].get("type") == "text" {
		return []*object{newObject("role", role, "content", blocks[0].get("text"))}
	}
	return []*object{newObject("role", role, "content", listOf(blocks))}
}

func anthropicAnswer(result *memorydpb.ToolResult, c *crossing) *object {
	id := c.answered(result)
	if id == "" {
		name := result.GetName()
		if name == "" {
			name = "tool"
		}
		return textBlock("[" + name + "] " + result.GetText())
	}
	made := newObject("type", "tool_result", "tool_use_id", id, "content", result.GetText())
	if result.GetIsError() {
		made.set("is_error", true)
	}
	return made
}

func (form anthropic) blocks(parts []*memorydpb.Part, c *crossing, isOfAssistant bool) []*object {
	var made []*object
	for _, part := range parts {
		if block := form.block(part, c, isOfAssistant); block != nil {
			made = append(made, block)
		}
	}
	return made
}

func (anthropic) block(part *memorydpb.Part, c *crossing, isOfAssistant bool) *object {
	if call := part.GetToolCall(); call != nil {
		if !isOfAssistant {
			return nil
		}
		id := c.callID(call)
		return newObject("type", "tool_use", "id", id, "name", c.toolName(call.GetName()),
			"input", anthropicInput(call.GetArgumentsJson()))
	}
	if thinking := part.GetThinking(); thinking != nil {
		// Without a signature the API refuses it.
		if !isOfAssistant || thinking.GetSignature() == "" {
			return nil
		}
		return newObject("type", "thinking", "thinking", thinking.GetText(), "signature", thinking.GetSignature())
	}
	switch kind, media := mediaOf(part); kind {
	case image, document:
		block := anthropicImage(media)
		if kind == document {
			block = anthropicDocument(media)
		}
		// Only a user's message may have one.
		if block.get("type") == "text" || !isOfAssistant {
			return block
		}
		return textBlock("[" + kind + "]")
	case audio, video:
		return textBlock("[" + kind + "]")
	}
	for _, text := range textsOf([]*memorydpb.Part{part}) {
		if hasWords(text) {
			return textBlock(text)
		}
	}
	return nil
}

// anthropicInput returns arguments as the API takes them, an object.
func anthropicInput(given string) *object {
	if given == "" {
		given = "{}"
	}
	value, isJSON := parse(given)
	if made, is := value.(*object); is {
		return made
	}
	if !isJSON { // The stream was cut, or the tool takes text.
		value = given
	}
	return newObject("arguments", value)
}

func anthropicImage(media *memorydpb.Media) *object {
	mimeType, data, isHeld := heldBy(media)
	if !isHeld {
		return elsewhere(media, image, "")
	}
	if !slices.Contains(imageTypes, mimeType) {
		mimeType = ""
		for _, one := range imageBegins {
			if mimeType == "" && bytes.HasPrefix(data, []byte(one.begin)) {
				mimeType = one.mimeType
			}
		}
	}
	if mimeType == "" || len(data) == 0 {
		return textBlock("[image]")
	}
	return newObject("type", image, "source", base64Source(mimeType, data))
}

func anthropicDocument(media *memorydpb.Media) *object {
	mimeType, data, isHeld := heldBy(media)
	title := media.GetTitle()
	if !isHeld {
		return elsewhere(media, document, title)
	}
	if mimeType == "application/pdf" || bytes.HasPrefix(data, []byte("%PDF")) {
		return titled(title, base64Source("application/pdf", data))
	}
	if !utf8.Valid(data) || !hasWords(string(data)) {
		return textBlock("[" + joinWords(" ", document, title) + "]")
	}
	return titled(title, newObject("type", "text", "media_type", "text/plain", "data", string(data)))
}

// elsewhere returns the block of what the API fetches itself, or words about it.
func elsewhere(media *memorydpb.Media, kind, title string) *object {
	if url := media.GetUrl(); webURL.MatchString(url) {
		source := newObject("type", "url", "url", url)
		if kind == image {
			return newObject("type", image, "source", source)
		}
		return titled(title, source)
	}
	place := media.GetPath()
	if place == "" {
		place = media.GetUrl()
	}
	words := joinWords(" ", title, place)
	if kind == image {
		return textBlock("[" + joinWords(" ", kind, words) + "]")
	}
	return textBlock("[" + kind + " " + words + "]")
}

func titled(title string, source *object) *object {
	made := newObject("type", document, "source", source)
	if title != "" {
		made.set("title", title)
	}
	return made
}

func base64Source(mimeType string, data []byte) *object {
	return newObject("type", "base64", "media_type", mimeType, "data", base64.StdEncoding.EncodeToString(data))
}
