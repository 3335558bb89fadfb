package forms_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memoryd/memoryd/clients/go/forms"
	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// Messages of OpenAI's form, each as the API has it.
var openAIMessages = []string{
	`{"role":"user","content":"hi"}`,
	`{"content":"hi","role":"user"}`,
	`{"role":"system","content":"Be brief."}`,
	`{"role":"developer","content":[{"type":"text","text":"Be brief."}]}`,
	`{"role":"user","name":"ann","content":"hi","extra":{"n":9007199254740993,"x":1.50,"y":[true,null]}}`,
	`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]}`,
	`{"role":"assistant","content":null,"refusal":"No."}`,
	`{"role":"assistant","content":"Done.","reasoning_content":"6 x 7","audio":{"id":"a","data":"AAAA","transcript":"x"}}`,
	`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`,
	`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"custom","custom":{"name":"g","input":"x"}},{"id":5},{"function":"f"}]}`,
	`{"role":"tool","tool_call_id":"c1","content":"42"}`,
	`{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"4"},{"type":"text","text":"2"},{"type":"image_url","image_url":{"url":"https://a.example"}}]}`,
	`{"role":"function","name":"f","content":"42"}`,
	`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + pixel + `","detail":"low"}},{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},{"type":"file","file":{"filename":"a.pdf","file_data":"not base64!"}},{"type":"file","file":{"file_id":"file-1"}},{"type":"later","value":{"$part":[1,2]}}]}`,
	`{"role":"user","content":"\ud83d lone, 😀 whole\n, \udfff"}`,
	`{"role":"tool","tool_call_id":"c\u0000","content":[{"type":"text","text":"a\ud83d"},{"type":"text","text":"\u0000"}]}`,
	`{"role":"user","content":"` + strings.Repeat("tea ", 600_000) + `"}`,
	`{"role":"user","content":"hi","$part":{"$part":[0,"text"]},"memoryd":{"form":1}}`,
}

// Messages of Anthropic's form.
var anthropicMessages = []string{
	`{"role":"assistant","content":[]}`,
	`{"role":"assistant","content":[{"type":"thinking","thinking":"6 x 7","signature":"sig"},{"type":"text","text":"Let me see.","citations":null},{"type":"tool_use","id":"toolu_1","name":"multiply","input":{"b":7.50,"a":9007199254740993}}]}`,
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"4"},{"type":"text","text":"2"}],"is_error":true},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + pixel + `"}},{"type":"document","title":"A","source":{"type":"text","media_type":"text/plain","data":"said"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"inner"}]}},{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"found"}]},{"type":"server_tool_use","id":"x","name":"web","input":{}}]}`,
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"search_result","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"type":"text","text":"\udc00"}]}]}`,
	`{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}`,
}

func TestAMessageComesBackAsItWasPut(t *testing.T) {
	for _, given := range openAIMessages {
		messages, err := forms.FromOpenAI([]byte(given))
		if err != nil {
			t.Fatal(err)
		}
		made := forms.ToOpenAI(messages)
		if len(made) != 1 || string(made[0]) != given {
			t.Errorf("%.300s\ncomes back as\n%.300s", given, made)
		}
	}
	for _, given := range anthropicMessages {
		messages, err := forms.FromAnthropic([]byte(given))
		if err != nil {
			t.Fatal(err)
		}
		made := forms.ToAnthropic(messages)
		if len(made.Messages) != 1 || string(made.Messages[0]) != given {
			t.Errorf("%.300s\ncomes back as\n%.300s", given, made.Messages)
		}
	}
}

func TestTheFormIsFound(t *testing.T) {
	for at, given := range slices.Concat(openAIMessages, anthropicMessages) {
		messages, err := forms.From(json.RawMessage(given))
		if err != nil {
			t.Fatal(err)
		}
		made := forms.ToOpenAI(messages)
		if at >= len(openAIMessages) {
			made = forms.ToAnthropic(messages).Messages
		}
		if len(made) != 1 || string(made[0]) != given {
			t.Errorf("%.300s\ncomes back as\n%.300s", given, made)
		}
	}
}

type dict = map[string]any

func TestAChatInOneFormIsValidInTheOther(t *testing.T) {
	messages, err := forms.From(
		dict{"role": "system", "content": "Be brief."},
		dict{"role": "user", "content": "hi"},
		dict{"role": "assistant", "content": nil, "tool_calls": []dict{
			{"id": "a b", "type": "function", "function": dict{"name": "add", "arguments": "{}"}},
			{"id": "c2", "type": "function", "function": dict{"name": "add", "arguments": "[1]"}},
		}},
		dict{"role": "tool", "tool_call_id": "a b", "content": "1"},
		dict{"role": "tool", "tool_call_id": "c2", "content": "2"},
	)
	if err != nil {
		t.Fatal(err)
	}
	type block struct {
		Type, ID  string
		ToolUseID string `json:"tool_use_id"`
		Input     dict
	}
	type message struct {
		Role    string
		Content json.RawMessage
	}
	made := forms.ToAnthropic(messages)
	if string(made.System) != `"Be brief."` {
		t.Errorf("system: %s", made.System)
	}
	told, err := forms.As[message](made.Messages)
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 3 || told[0].Role != "user" || told[1].Role != "assistant" || told[2].Role != "user" {
		t.Fatalf("%s", made.Messages)
	}
	calls, err := forms.As[[]block]([]json.RawMessage{told[1].Content, told[2].Content})
	if err != nil {
		t.Fatal(err)
	}
	for at, call := range calls[0] {
		if call.Type != "tool_use" || strings.ContainsRune(call.ID, ' ') || calls[1][at].ToolUseID != call.ID {
			t.Errorf("%+v is answered by %+v", call, calls[1][at])
		}
	}
	if !reflect.DeepEqual(calls[0][1].Input, dict{"arguments": []any{1.0}}) {
		t.Errorf("input: %v", calls[0][1].Input)
	}
	if text, err := json.Marshal(made); err != nil || !strings.HasPrefix(string(text), `{"system":"Be brief.","messages":[`) {
		t.Errorf("%s: %v", text, err)
	}

	messages, err = forms.From(json.RawMessage(anthropicMessages[1]), json.RawMessage(anthropicMessages[2]))
	if err != nil {
		t.Fatal(err)
	}
	others, err := forms.As[message](forms.ToOpenAI(messages))
	if err != nil {
		t.Fatal(err)
	}
	if len(others) != 3 || others[1].Role != "tool" || string(others[1].Content) != `"4\n2"` {
		t.Errorf("%+v", others)
	}
}

func TestWhatAGetPutsAheadIsShown(t *testing.T) {
	messages, err := forms.FromAnthropic(json.RawMessage(anthropicMessages[4]))
	if err != nil {
		t.Fatal(err)
	}
	memory := &memorydpb.Part{Kind: &memorydpb.Part_Text{Text: "memory"}}
	own := &memorydpb.Part{Kind: &memorydpb.Part_Text{Text: messages[0].GetText()}}
	messages[0].Text, messages[0].Parts = nil, []*memorydpb.Part{memory, own}
	want := `{"role":"user","content":[{"type":"text","text":"memory"},` +
		`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}`
	if made := forms.ToAnthropic(messages).Messages; string(made[0]) != want {
		t.Errorf("%s", made)
	}
	// Whoever has changed the parts has changed the message.
	messages[0].Parts = []*memorydpb.Part{{Kind: &memorydpb.Part_Json{Json: "{}"}}}
	if made := forms.ToAnthropic(messages).Messages; string(made[0]) != `{"role":"user","content":"{}"}` {
		t.Errorf("%s", made)
	}
}

func TestWhatIsNoMessageIsRefusedByItsPlace(t *testing.T) {
	good := json.RawMessage(openAIMessages[0])
	for given, want := range map[string]string{
		`{"role":"user","content":[1]}`:    "messages[1].content[0]: must be an object",
		`{"role":""}`:                      "messages[1].role: must be a text",
		`{"role":"user"}`:                  "messages[1].content: is missing",
		`{"role":"user","content":{}}`:     "messages[1].content: must be a text",
		`{"role":"\ud800","content":"hi"}`: "messages[1].role: holds half",
		`[]`:                               "messages[1]: must be a message",
		`{`:                                "messages[1]: must be JSON",
		`{"role":"user","content":[{"type":"tool_result","content":[1]}]}`: "messages[1].content[0].content[0]: must be",
	} {
		if _, err := forms.From(good, []byte(given)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", given, err)
		}
	}
	if _, err := forms.From(func() {}); err == nil {
		t.Error("a function is taken")
	}
	if _, err := forms.As[int](forms.ToOpenAI([]*memorydpb.Message{{Role: "user"}})); err == nil {
		t.Error("a message is a number")
	}
}

func TestMessagesOfMemorydStay(t *testing.T) {
	own := &memorydpb.Message{Role: "user"}
	if made, err := forms.From(own); err != nil || made[0] != own {
		t.Errorf("%v: %v", made, err)
	}
	if made := forms.ToOpenAI(nil); made != nil {
		t.Errorf("%s", made)
	}
}

func FuzzForms(f *testing.F) {
	for _, given := range slices.Concat(openAIMessages, anthropicMessages) {
		if len(given) < 10_000 {
			f.Add(given)
		}
	}
	f.Fuzz(func(t *testing.T, given string) {
		messages, err := forms.From([]byte(given))
		if err != nil {
			return
		}
		for _, made := range append(forms.ToOpenAI(messages), forms.ToAnthropic(messages).Messages...) {
			if !json.Valid(made) {
				t.Errorf("%q becomes %s", given, made)
			}
		}
	})
}
