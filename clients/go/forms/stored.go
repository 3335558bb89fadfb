package forms

import (
	"encoding/base64"
	"regexp"
	"strings"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// stored is a message as it is stored: its parts, and the template if it has one.
type stored struct {
	message *memorydpb.Message
	parts   []*memorydpb.Part
	// Empty where the parts say all.
	form     string
	count    int
	template *object
}

func storedOf(message *memorydpb.Message) *stored {
	made := &stored{message: message, parts: message.GetParts()}
	if message.Text != nil {
		made.parts = []*memorydpb.Part{textPart(message.GetText())}
	}
	var found any
	if last := len(made.parts) - 1; last >= 0 && made.parts[last].GetOpaque().GetType() == key {
		found, _ = parse(string(made.parts[last].GetOpaque().GetData()))
		made.parts = made.parts[:last]
	} else if strings.Contains(message.GetMetadataJson(), `"`+key+`"`) {
		metadata, _ := parse(message.GetMetadataJson())
		if own, is := metadata.(*object); is {
			found = own.get(key)
		}
	}
	if is, isObject := found.(*object); isObject {
		form, isText := is.text("form")
		template, isTemplate := is.get("message").(*object)
		count := numberOf(is.get("parts"))
		if isText && isTemplate && count >= 0 {
			made.form, made.count, made.template = form, count, template
		}
	}
	return made
}

// asPut returns the message as it was put, and the parts that a Get has put ahead of its own. It
// returns nil where the parts have been changed since.
func (s *stored) asPut() (*object, []*memorydpb.Part) {
	ahead := len(s.parts) - s.count
	if s.template == nil || ahead < 0 {
		return nil, nil
	}
	filling := filler{parts: s.parts[ahead:], name: s.message.GetName()}
	made, is := filling.filled(s.template).(*object)
	// The server knows the message by this role alone.
	if !is || filling.isStale || made.get("role") != s.message.GetRole() {
		return nil, nil
	}
	return made, s.parts[:ahead]
}

// filler fills the holes of a template.
type filler struct {
	parts []*memorydpb.Part
	name  string
	// The parts are no longer those that the template was made with.
	isStale bool
}

func (f *filler) stale() any {
	f.isStale = true
	return nil
}

func (f *filler) filled(value any) any {
	switch value := value.(type) {
	case []any:
		made := make([]any, len(value))
		for at, item := range value {
			made[at] = f.filled(item)
		}
		return made
	case *object:
		own := value
		if isHole(value) {
			switch inside := value.get(holeKey).(type) {
			case []any:
				if len(inside) > 0 && inside[0] == "name" {
					return f.name
				}
				return f.content(inside)
			case *object: // A message that has such a key itself.
				own = inside
			}
		}
		made := newObject()
		for _, name := range own.keys {
			made.set(name, f.filled(own.values[name]))
		}
		return made
	}
	return value
}

func (f *filler) content(list []any) any {
	if len(list) < 2 || len(list) > 3 {
		return f.stale()
	}
	at := numberOf(list[0])
	field, _ := list[1].(string)
	is := newObject()
	if len(list) == 3 {
		is, _ = list[2].(*object)
	}
	if at < 0 || at >= len(f.parts) || is == nil {
		return f.stale()
	}
	switch kind := f.parts[at].GetKind().(type) {
	case *memorydpb.Part_Text:
		if field == "text" {
			return f.restored(kind.Text, at, is)
		}
	case *memorydpb.Part_Thinking:
		switch field {
		case "thinking":
			return f.restored(kind.Thinking.GetText(), at, is)
		case "signature":
			return kind.Thinking.GetSignature()
		}
	case *memorydpb.Part_ToolCall:
		switch field {
		case "arguments":
			return kind.ToolCall.GetArgumentsJson()
		case "input":
			if value, isJSON := parse(kind.ToolCall.GetArgumentsJson()); isJSON {
				return value
			}
		case "id":
			return kind.ToolCall.GetCallId()
		case "name":
			return kind.ToolCall.GetName()
		}
	case *memorydpb.Part_ToolResult:
		switch field {
		case "result":
			return f.restored(kind.ToolResult.GetText(), at, is)
		case "id":
			return kind.ToolResult.GetCallId()
		case "name":
			return kind.ToolResult.GetName()
		}
	case *memorydpb.Part_Opaque:
		if value, isJSON := parse(string(kind.Opaque.GetData())); isJSON && field == "json" {
			return value
		}
	default:
		if _, media := mediaOf(f.parts[at]); media != nil {
			return f.medium(media, field)
		}
	}
	return f.stale()
}

func (f *filler) medium(media *memorydpb.Media, field string) any {
	data := base64.StdEncoding.EncodeToString(media.GetData())
	switch field {
	case "data":
		return data
	case "url_safe":
		return strings.NewReplacer("+", "-", "/", "_").Replace(data)
	case "data_url":
		return "data:" + media.GetMimeType() + ";base64," + data
	case "encoded":
		_, behind, _ := strings.Cut(media.GetUrl(), ",")
		return behind
	case "plain":
		return string(media.GetData())
	case "url":
		return media.GetUrl()
	case "path":
		return media.GetPath()
	}
	return f.stale()
}

// restored returns a text of one or several parts, with its halves, or a slice of it.
func (f *filler) restored(text string, at int, is *object) any {
	count := 1
	if is.has("count") {
		count = numberOf(is.get("count"))
	}
	if count < 1 || at+count > len(f.parts) {
		return f.stale()
	}
	for _, part := range f.parts[at+1 : at+count] {
		text += part.GetText()
	}
	list, _ := is.get("halves").([]any)
	halves := make([]half, 0, len(list))
	for _, item := range list {
		pair, _ := item.([]any)
		if len(pair) != 2 || numberOf(pair[0]) < 0 || !isHalf(rune(numberOf(pair[1]))) {
			return f.stale()
		}
		halves = append(halves, half{numberOf(pair[0]), rune(numberOf(pair[1]))})
	}
	text = withHalves(text, halves)
	if !is.has("slice") {
		return text
	}
	slice, _ := is.get("slice").([]any)
	now := charactersOf(text)
	if len(slice) != 3 || numberOf(slice[2]) != len(now) {
		return f.stale()
	}
	start, length := numberOf(slice[0]), numberOf(slice[1])
	if start < 0 || length < 0 || start+length > len(now) {
		return f.stale()
	}
	return textOfCharacters(now[start : start+length])
}

// writeTemplate gives the message its metadata, with the template unless that is nil.
func writeTemplate(made *memorydpb.Message, form string, template, metadata *object) {
	if template != nil {
		count := len(made.GetParts())
		if made.Text != nil {
			count++
		}
		own := newObject("form", form, "parts", count, "message", encoded(template))
		all := metadata.with(key, own)
		if text := write(all); isJSON(all, text, maxMetadataBytes) {
			made.MetadataJson = text
			return
		}
		if made.Text != nil {
			made.Parts = append(made.Parts, textPart(made.GetText()))
			made.Text = nil
		}
		made.Parts = append(made.Parts, opaquePart(key, own))
	}
	if len(metadata.keys) > 0 {
		made.MetadataJson = write(metadata)
	}
}

// mediaOf returns the kind and the medium of a part that is one.
func mediaOf(part *memorydpb.Part) (string, *memorydpb.Media) {
	switch kind := part.GetKind().(type) {
	case *memorydpb.Part_Image:
		return image, kind.Image
	case *memorydpb.Part_Audio:
		return audio, kind.Audio
	case *memorydpb.Part_Video:
		return video, kind.Video
	case *memorydpb.Part_Document:
		return document, kind.Document
	}
	return "", nil
}

var (
	anyDataURL = regexp.MustCompile(`^data:([^;,]*)[^,]*;base64,`)
	noBase64   = regexp.MustCompile(`[^A-Za-z0-9+/=]`)
)

// heldBy returns MIME type and data of a medium, its own or those of its data URL, and false where
// it lies elsewhere.
func heldBy(media *memorydpb.Media) (string, []byte, bool) {
	if media.Data != nil {
		return media.GetMimeType(), media.GetData(), true
	}
	found := anyDataURL.FindStringSubmatch(media.GetUrl())
	if found == nil {
		return "", nil, false
	}
	given := noBase64.ReplaceAllString(media.GetUrl()[len(found[0]):], "")
	data, err := base64.StdEncoding.DecodeString(given)
	return found[1], data, err == nil
}

// textsOf returns the texts of parts that say something in words.
func textsOf(parts []*memorydpb.Part) []string {
	var made []string
	for _, part := range parts {
		switch kind := part.GetKind().(type) {
		case *memorydpb.Part_Text:
			made = append(made, kind.Text)
		case *memorydpb.Part_Json:
			made = append(made, kind.Json)
		case *memorydpb.Part_Citation:
			made = append(made, kind.Citation.GetCitedText())
		}
	}
	return made
}
