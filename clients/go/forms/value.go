package forms

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A value of JSON is nil, a bool, a json.Number, a string, a []any or an *object. Objects keep the
// order of their keys, and numbers their digits. A string may hold lone halves of characters beyond
// U+FFFF, which JSON can write and UTF-8 cannot: they stand in it as three bytes each.

// object is an object of JSON.
type object struct {
	keys   []string
	values map[string]any
}

func newObject(pairs ...any) *object {
	made := &object{values: make(map[string]any, len(pairs)/2)}
	for at := 0; at < len(pairs); at += 2 {
		made.set(pairs[at].(string), pairs[at+1])
	}
	return made
}

func (o *object) get(key string) any { return o.values[key] }

func (o *object) has(key string) bool {
	_, is := o.values[key]
	return is
}

func (o *object) set(key string, value any) {
	if !o.has(key) {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

// put sets a key that is there, and no other.
func (o *object) put(key string, value any) {
	if o.has(key) {
		o.values[key] = value
	}
}

func (o *object) text(key string) (string, bool) {
	value, is := o.values[key].(string)
	return value, is
}

func (o *object) clone() *object {
	made := &object{keys: slices.Clone(o.keys), values: make(map[string]any, len(o.values))}
	for key, value := range o.values {
		made.values[key] = value
	}
	return made
}

// with returns a copy with another value of one key.
func (o *object) with(key string, value any) *object {
	made := o.clone()
	made.set(key, value)
	return made
}

// objectsIn returns the objects of a list.
func objectsIn(value any) []*object {
	list, _ := value.([]any)
	made := make([]*object, 0, len(list))
	for _, item := range list {
		if found, is := item.(*object); is {
			made = append(made, found)
		}
	}
	return made
}

// parse reads JSON. It reports false for anything else.
func parse(text string) (any, bool) {
	if !utf8.ValidString(text) || !json.Valid([]byte(text)) {
		return nil, false
	}
	reading := reader{text: text}
	return reading.value(), true
}

// reader reads JSON that is known to be valid.
type reader struct {
	text string
	at   int
}

func (r *reader) value() any {
	r.space()
	switch r.text[r.at] {
	case '{':
		made := newObject()
		for r.more('}') {
			key := r.str()
			r.space()
			r.at++ // The colon.
			made.set(key, r.value())
		}
		return made
	case '[':
		made := []any{}
		for r.more(']') {
			made = append(made, r.value())
		}
		return made
	case '"':
		return r.str()
	case 't':
		r.at += len("true")
		return true
	case 'f':
		r.at += len("false")
		return false
	case 'n':
		r.at += len("null")
		return nil
	}
	begin := r.at
	for r.at < len(r.text) && strings.IndexByte("+-.0123456789Ee", r.text[r.at]) >= 0 {
		r.at++
	}
	return json.Number(r.text[begin:r.at])
}

// more moves to the next item of a list or an object, and past its end.
func (r *reader) more(end byte) bool {
	if r.text[r.at] == '{' || r.text[r.at] == '[' {
		r.at++
	}
	r.space()
	if r.text[r.at] == ',' {
		r.at++
		r.space()
	}
	if r.text[r.at] == end {
		r.at++
		return false
	}
	return true
}

func (r *reader) space() {
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
}

func (r *reader) str() string {
	r.at++
	end := r.at
	for r.text[end] != '"' && r.text[end] != '\\' {
		end++
	}
	if r.text[end] == '"' { // As most are.
		made := r.text[r.at:end]
		r.at = end + 1
		return made
	}
	var made strings.Builder
	for ; r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] != '\\' {
			made.WriteByte(r.text[r.at])
			continue
		}
		r.at++
		switch r.text[r.at] {
		case 'b':
			made.WriteByte('\b')
		case 'f':
			made.WriteByte('\f')
		case 'n':
			made.WriteByte('\n')
		case 'r':
			made.WriteByte('\r')
		case 't':
			made.WriteByte('\t')
		case 'u':
			writeCharacter(&made, r.escaped())
		default:
			made.WriteByte(r.text[r.at])
		}
	}
	r.at++
	return made.String()
}

// escaped reads four digits behind \u, and a second half that follows.
func (r *reader) escaped() rune {
	code := r.digits(r.at + 1)
	r.at += 4
	if isHigh(code) && strings.HasPrefix(r.text[r.at+1:], `\u`) {
		if low := r.digits(r.at + 3); isLow(low) {
			r.at += 6
			return (code-highMin)<<10 + (low - lowMin) + supplementMin
		}
	}
	return code
}

func (r *reader) digits(at int) rune {
	code, _ := strconv.ParseUint(r.text[at:at+4], 16, 32)
	return rune(code)
}

// write returns the JSON of a value, without spaces.
func write(value any) string {
	var made strings.Builder
	writeTo(&made, value)
	return made.String()
}

func writeTo(to *strings.Builder, value any) {
	switch value := value.(type) {
	case nil:
		to.WriteString("null")
	case bool:
		to.WriteString(strconv.FormatBool(value))
	case json.Number:
		to.WriteString(value.String())
	case int:
		to.WriteString(strconv.Itoa(value))
	case string:
		writeString(to, value)
	case []any:
		to.WriteByte('[')
		for at, item := range value {
			if at > 0 {
				to.WriteByte(',')
			}
			writeTo(to, item)
		}
		to.WriteByte(']')
	case *object:
		to.WriteByte('{')
		for at, key := range value.keys {
			if at > 0 {
				to.WriteByte(',')
			}
			writeString(to, key)
			to.WriteByte(':')
			writeTo(to, value.values[key])
		}
		to.WriteByte('}')
	}
}

var shortEscapes = [' ']byte{'\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

func writeString(to *strings.Builder, text string) {
	const digits = "0123456789abcdef"
	to.WriteByte('"')
	for _, one := range charactersOf(text) {
		switch {
		case one == '"' || one == '\\':
			to.WriteByte('\\')
			to.WriteRune(one)
		case one < ' ' && shortEscapes[one] != 0:
			to.WriteByte('\\')
			to.WriteByte(shortEscapes[one])
		case one < ' ' || isHalf(one):
			to.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				to.WriteByte(digits[one>>shift&15])
			}
		default:
			to.WriteRune(one)
		}
	}
	to.WriteByte('"')
}

// equal reports whether two values are the same JSON, with the same order of keys.
func equal(left, right any) bool {
	switch left := left.(type) {
	case []any:
		other, is := right.([]any)
		return is && slices.EqualFunc(left, other, equal)
	case *object:
		other, is := right.(*object)
		if !is || !slices.Equal(left.keys, other.keys) {
			return false
		}
		for _, key := range left.keys {
			if !equal(left.values[key], other.values[key]) {
				return false
			}
		}
		return true
	}
	switch right.(type) {
	case []any, *object:
		return false
	}
	return left == right
}
