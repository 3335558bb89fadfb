package forms

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// What the server takes, and what it does not take made fit. Places in a text are counted in
// characters, as all clients count them; a lone half counts as one.

const (
	maxParts         = 1000
	maxMetadataBytes = 256 << 10
	maxTextBytes     = 1 << 20
	maxCallIDBytes   = 16 << 10
	maxDepth         = 64
	maxObjectKeys    = 1000
	maxTotalKeys     = 10_000
	maxKeyBytes      = 1024

	highMin, lowMin, lowMax, supplementMin = 0xd800, 0xdc00, 0xdfff, 0x10000
)

// half is a lone half of a character: where in its text it stood, and which it was.
type half struct {
	at   int
	code rune
}

func isHigh(code rune) bool { return highMin <= code && code < lowMin }
func isLow(code rune) bool  { return lowMin <= code && code <= lowMax }
func isHalf(code rune) bool { return highMin <= code && code <= lowMax }

// writeCharacter writes a character, or a lone half in three bytes.
func writeCharacter(to *strings.Builder, code rune) {
	if !isHalf(code) {
		to.WriteRune(code)
		return
	}
	to.WriteByte(byte(0xe0 | code>>12))
	to.WriteByte(byte(0x80 | code>>6&0x3f))
	to.WriteByte(byte(0x80 | code&0x3f))
}

// charactersOf returns the characters and lone halves of a text.
func charactersOf(text string) []rune {
	if utf8.ValidString(text) {
		return []rune(text)
	}
	made := make([]rune, 0, len(text))
	for at := 0; at < len(text); {
		code, size := utf8.DecodeRuneInString(text[at:])
		if code == utf8.RuneError && size == 1 && at+2 < len(text) && text[at] == 0xed {
			code = rune(text[at]&0x0f)<<12 | rune(text[at+1]&0x3f)<<6 | rune(text[at+2]&0x3f)
			size = 3
		}
		made = append(made, code)
		at += size
	}
	return made
}

func textOfCharacters(characters []rune) string {
	var made strings.Builder
	for _, one := range characters {
		writeCharacter(&made, one)
	}
	return made.String()
}

// withoutHalves returns the text with U+FFFD in place of each lone half, and what withHalves needs.
func withoutHalves(text string) (string, []half) {
	if utf8.ValidString(text) {
		return text, nil
	}
	var halves []half
	characters := charactersOf(text)
	for at, one := range characters {
		if isHalf(one) {
			halves = append(halves, half{at, one})
			characters[at] = utf8.RuneError
		}
	}
	return string(characters), halves
}

func withHalves(text string, halves []half) string {
	if len(halves) == 0 {
		return text
	}
	characters := charactersOf(text)
	for _, one := range halves {
		// The text has been changed since.
		if one.at >= len(characters) || characters[one.at] != utf8.RuneError {
			return text
		}
	}
	for _, one := range halves {
		characters[one.at] = one.code
	}
	return textOfCharacters(characters)
}

// isText reports whether the server takes the text as it is.
func isText(text string) bool { return len(text) <= maxTextBytes && utf8.ValidString(text) }

// pieces returns the text in pieces that the server takes, at least one.
func pieces(text string) []string {
	if isText(text) {
		return []string{text}
	}
	const size = maxTextBytes / 4
	var made []string
	for characters := []rune(text); len(characters) > 0; {
		count := min(size, len(characters))
		made = append(made, string(characters[:count]))
		characters = characters[count:]
	}
	return made
}

// isJSON reports whether the server takes text, the JSON of value, where it looks into JSON.
func isJSON(value any, text string, maxBytes int) bool {
	if len(text) > maxBytes {
		return false
	}
	keys, depth := 0, 0
	for level := []any{value}; len(level) > 0; {
		var inside []any
		deeper := 0
		for _, item := range level {
			switch item := item.(type) {
			case []any:
				deeper = 1
				inside = append(inside, item...)
			case *object:
				deeper = 1
				keys += len(item.keys)
				if len(item.keys) > maxObjectKeys {
					return false
				}
				for _, key := range item.keys {
					if len(key) > maxKeyBytes || !isPlain(key) {
						return false
					}
					inside = append(inside, item.values[key])
				}
			case string:
				if !isPlain(item) {
					return false
				}
			}
		}
		depth += deeper
		if depth > maxDepth || keys > maxTotalKeys {
			return false
		}
		level = inside
	}
	return true
}

func isPlain(text string) bool { return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text) }

// callIDOf returns the id of a tool's call as a part has it; "" where there is none.
func callIDOf(given any) string {
	text, is := given.(string)
	if number, isNumber := given.(json.Number); isNumber {
		text, is = number.String(), true
	}
	if !is || text == "" || (len(text) <= maxCallIDBytes && utf8.ValidString(text)) {
		return text
	}
	// The server would refuse it. Its hash tells it from others.
	return "sha256:" + hashOf(text)
}

func hashOf(text string) string {
	plain, _ := withoutHalves(text)
	sum := sha256.Sum256([]byte(plain))
	return hex.EncodeToString(sum[:])
}

func hasWords(text string) bool { return strings.TrimSpace(text) != "" }
