package forms

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// Texts, ids, arguments and media of a message stand in parts, where the server and every client
// find them. Its template is the message with a hole where each of them was. The template stands in
// the metadata under `memoryd`, or in a last part, opaque and of that type, where the server would
// refuse it as metadata. The clients for Python and TypeScript write and read the same.

const (
	key          = "memoryd"
	holeKey      = "$part"
	both         = "both"
	maxNameBytes = 256
	maxTypeBytes = 64
	// Parts that other content leaves free for calls and results.
	maxToolParts = maxParts / 2
)

// The kinds of media.
const (
	image    = "image"
	audio    = "audio"
	video    = "video"
	document = "document"
)

var dataURL = regexp.MustCompile(`^data:([^;,]*);base64,`)

// taking moves content into parts. Each method returns what takes the content's place: a hole, or
// the content itself.
type taking struct {
	parts    []*memorydpb.Part
	name     string
	reserved int
}

// newTaking leaves room for so many calls and results.
func newTaking(toolParts int) *taking { return &taking{reserved: min(toolParts, maxToolParts)} }

// hole is where content was: a list of the part's index, the field, and what else its reader needs.
type hole struct{ at []any }

func (t *taking) speaker(name any) any {
	text, is := name.(string)
	if !is || text == "" || !utf8.ValidString(text) || len(text) > maxNameBytes {
		return name
	}
	t.name = text
	return hole{[]any{"name"}}
}

func (t *taking) text(text string) any {
	value, halves := withoutHalves(text)
	var made []*memorydpb.Part
	for _, piece := range pieces(value) {
		made = append(made, textPart(piece))
	}
	return t.texts(made, "text", halves, text)
}

// thinking takes reasoning, and the signature over it.
func (t *taking) thinking(text string, signature any) (any, any) {
	value, halves := withoutHalves(text)
	first := pieces(value)
	thinking := &memorydpb.Thinking{Text: &first[0]}
	signed, isKept := signature.(string)
	isKept = isKept && utf8.ValidString(signed)
	if isKept {
		thinking.Signature = &signed
	}
	at := len(t.parts)
	made := []*memorydpb.Part{{Kind: &memorydpb.Part_Thinking{Thinking: thinking}}}
	for _, piece := range first[1:] {
		made = append(made, textPart(piece))
	}
	taken := t.texts(made, "thinking", halves, text)
	if _, is := taken.(hole); is && isKept {
		signature = hole{[]any{at, "signature"}}
	}
	return taken, signature
}

// call takes a call: its id, name and arguments, which are a text or any value of JSON.
func (t *taking) call(id, name, arguments any) (any, any, any) {
	written, isGiven := arguments.(string)
	if !isGiven {
		written = write(arguments)
	}
	fits := isText(written)
	value := &memorydpb.ToolCall{ArgumentsJson: "{}"}
	if fits {
		value.ArgumentsJson = written
	}
	at := t.add([]*memorydpb.Part{{Kind: &memorydpb.Part_ToolCall{ToolCall: value}}}, true)
	if at < 0 {
		return id, name, arguments
	}
	if fits && isGiven {
		arguments = hole{[]any{at, "arguments"}}
	} else if fits {
		arguments = hole{[]any{at, "input"}}
	}
	return t.id(at, &value.CallId, id), t.toolName(at, &value.Name, name), arguments
}

// result takes a result: its call's id, the tool's name, and the texts of the answer.
func (t *taking) result(id, name any, texts []string, isError bool) (any, any, []any) {
	given := make([]any, len(texts))
	for at, text := range texts {
		given[at] = text
	}
	whole, halves := withoutHalves(strings.Join(texts, "\n"))
	all := pieces(whole)
	value := &memorydpb.ToolResult{Text: all[0], IsError: isError}
	made := []*memorydpb.Part{{Kind: &memorydpb.Part_ToolResult{ToolResult: value}}}
	for _, piece := range all[1:] {
		made = append(made, textPart(piece))
	}
	at := t.add(made, true)
	if at < 0 {
		return id, name, given
	}
	start, length := 0, len(charactersOf(whole))
	for index, text := range texts {
		about := aboutTexts(len(made), halves)
		count := len(charactersOf(text))
		if len(texts) > 1 {
			about.set("slice", []any{start, count, length})
		}
		given[index] = textHole(at, "result", about)
		start += count + 1
	}
	return t.id(at, &value.CallId, id), t.toolName(at, &value.Name, name), given
}

// about says what a medium is besides its content.
type about struct{ mimeType, format, title, detail any }

// url takes the URL of a medium. A data URL becomes data.
func (t *taking) url(kind, url string, is about) any {
	if !utf8.ValidString(url) {
		return url
	}
	if found := dataURL.FindStringSubmatch(url); found != nil {
		if data, isBase64 := decoded(url[len(found[0]):]); isBase64 {
			media := &memorydpb.Media{Data: data, MimeType: &found[1]}
			return t.media(kind, media, "data_url", is, url)
		}
	}
	return t.media(kind, &memorydpb.Media{Url: &url}, "url", is, url)
}

// data takes data in base64, of either alphabet.
func (t *taking) data(kind, text string, is about) any {
	if data, isBase64 := decoded(text); isBase64 {
		return t.media(kind, &memorydpb.Media{Data: data}, "data", is, text)
	}
	if !strings.ContainsAny(text, "+/") {
		plain := strings.NewReplacer("-", "+", "_", "/").Replace(text)
		if data, isBase64 := decoded(plain); isBase64 {
			media := &memorydpb.Media{Data: data}
			return t.media(kind, media, "url_safe", is, text)
		}
	}
	if !utf8.ValidString(text) {
		return text
	}
	// Base64 of another make, which decoding and encoding would change.
	mimeType, isGiven := is.mimeType.(string)
	if !isGiven || !utf8.ValidString(mimeType) {
		mimeType = ""
	}
	url := "data:" + mimeType + ";base64," + text
	return t.media(kind, &memorydpb.Media{Url: &url}, "encoded", is, text)
}

// plain takes a medium that is text.
func (t *taking) plain(kind, text string, is about) any {
	if !utf8.ValidString(text) {
		return text
	}
	media := &memorydpb.Media{Data: []byte(text)}
	return t.media(kind, media, "plain", is, text)
}

// file takes a file at the provider's, by its id.
func (t *taking) file(kind, path string, is about) any {
	if !utf8.ValidString(path) {
		return path
	}
	return t.media(kind, &memorydpb.Media{Path: &path}, "path", is, path)
}

// opaque takes content of a kind that has no part, whole.
func (t *taking) opaque(kind, value any) any {
	name, is := kind.(string)
	if !is || !isKind(name) {
		name = "json"
	}
	at := t.add([]*memorydpb.Part{opaquePart(name, value)}, false)
	if at < 0 {
		return value
	}
	return hole{[]any{at, "json"}}
}

// add returns where the parts begin, or -1 where there is no room for them.
func (t *taking) add(made []*memorydpb.Part, isOfTool bool) int {
	if isOfTool {
		t.reserved = max(0, t.reserved-1)
	}
	if len(t.parts)+len(made) > maxParts-1-t.reserved {
		return -1
	}
	t.parts = append(t.parts, made...)
	return len(t.parts) - len(made)
}

func (t *taking) texts(made []*memorydpb.Part, field string, halves []half, text string) any {
	at := t.add(made, false)
	if at < 0 {
		return text
	}
	return textHole(at, field, aboutTexts(len(made), halves))
}

func (t *taking) media(kind string, media *memorydpb.Media, field string, is about, given string) any {
	for _, one := range []struct {
		to   **string
		from any
	}{{&media.MimeType, is.mimeType}, {&media.Format, is.format}, {&media.Title, is.title}, {&media.Detail, is.detail}} {
		text, isText := one.from.(string)
		if isText && text != "" && utf8.ValidString(text) && *one.to == nil {
			*one.to = &text
		}
	}
	at := t.add([]*memorydpb.Part{mediaPart(kind, media)}, false)
	if at < 0 {
		return given
	}
	return hole{[]any{at, field}}
}

func (t *taking) id(at int, to **string, given any) any {
	made := callIDOf(given)
	if made != "" {
		*to = &made
	}
	if made != "" && made == given {
		return hole{[]any{at, "id"}}
	}
	return given
}

func (t *taking) toolName(at int, to *string, given any) any {
	name, is := given.(string)
	if !is || name == "" || !isText(name) {
		return given
	}
	*to = name
	return hole{[]any{at, "name"}}
}

func textPart(text string) *memorydpb.Part {
	return &memorydpb.Part{Kind: &memorydpb.Part_Text{Text: text}}
}

func mediaPart(kind string, media *memorydpb.Media) *memorydpb.Part {
	switch kind {
	case image:
		return &memorydpb.Part{Kind: &memorydpb.Part_Image{Image: media}}
	case audio:
		return &memorydpb.Part{Kind: &memorydpb.Part_Audio{Audio: media}}
	case video:
		return &memorydpb.Part{Kind: &memorydpb.Part_Video{Video: media}}
	}
	return &memorydpb.Part{Kind: &memorydpb.Part_Document{Document: media}}
}

func opaquePart(kind string, value any) *memorydpb.Part {
	opaque := &memorydpb.Opaque{Type: kind, Data: []byte(write(value))}
	return &memorydpb.Part{Kind: &memorydpb.Part_Opaque{Opaque: opaque}}
}

func aboutTexts(count int, halves []half) *object {
	made := newObject()
	if count > 1 {
		made.set("count", count)
	}
	if len(halves) > 0 {
		list := make([]any, len(halves))
		for at, one := range halves {
			list[at] = []any{one.at, int(one.code)}
		}
		made.set("halves", list)
	}
	return made
}

func textHole(at int, field string, is *object) hole {
	if len(is.keys) == 0 {
		return hole{[]any{at, field}}
	}
	return hole{[]any{at, field, is}}
}

// decoded returns the data, if it is no other than what its base64 is made of.
func decoded(text string) ([]byte, bool) {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	return data, err == nil && !strings.ContainsAny(text, "\r\n")
}

func isKind(text string) bool {
	for at := range len(text) {
		if text[at] < ' ' || text[at] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxTypeBytes && text != key
}

// encoded returns a template as JSON has it.
func encoded(value any) any {
	switch value := value.(type) {
	case hole:
		return newObject(holeKey, value.at)
	case []any:
		made := make([]any, len(value))
		for at, item := range value {
			made[at] = encoded(item)
		}
		return made
	case *object:
		made := newObject()
		for _, name := range value.keys {
			made.set(name, encoded(value.values[name]))
		}
		if isHole(made) {
			return newObject(holeKey, made)
		}
		return made
	}
	return value
}

func isHole(value *object) bool { return len(value.keys) == 1 && value.has(holeKey) }

// numberOf returns a whole number of JSON; -1 for anything else.
func numberOf(value any) int {
	number, is := value.(json.Number)
	if !is {
		return -1
	}
	made, err := number.Int64()
	if err != nil || made < 0 || made > 1<<31 {
		return -1
	}
	return int(made)
}
