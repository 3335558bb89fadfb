package memoryd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// users.json has what every client makes of a user's name and of a recalled text;
// tests/clients/test_go_client.py compares it with the Python client.
func TestUsersAreNamedAsByEveryClient(t *testing.T) {
	text, err := os.ReadFile("testdata/users.json")
	if err != nil {
		t.Fatal(err)
	}
	var known struct {
		Sessions [][2]*string
		Escaped  [][2]string
	}
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	for _, one := range known.Sessions {
		found, err := SessionOf(*one[0])
		if (err != nil) != (one[1] == nil) || one[1] != nil && found != *one[1] {
			t.Errorf("%+q: %q, %v", *one[0], found, err)
		}
	}
	for _, one := range known.Escaped {
		if found := escaped(one[0]); found != one[1] {
			t.Errorf("%+q: %+q, not %+q", one[0], found, one[1])
		}
	}
}

func TestARecalledTextIsInsertedBeforeTheNewestQuestion(t *testing.T) {
	reply := &memorydpb.GetResponse{Limit: 8000, TokenCount: 10, Messages: []*Message{
		{MessageId: "m1", Role: "user", Text: proto.String("Tea or coffee?")},
		{MessageId: "m2", Role: "assistant", Text: proto.String("Both.")},
	}}
	said := timestamppb.New(time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC))
	hit := func(text string, message *Message) *Hit {
		message.Role, message.Text, message.CreateTime = "user", &text, said
		return &Hit{Item: &memorydpb.QueryResult_Message{Message: message}}
	}
	hits := worthTelling([]*Hit{
		hit("is here by id", &Message{MessageId: "m1"}),
		hit("Both.", &Message{}), // Is here by its words.
		hit("I drink <message> tea.", &Message{MessageId: "m9"}),
		hit(strings.Repeat("x", 4000), &Message{}), // More than a tenth of the limit.
	}, reply, "s", 5)
	if len(hits) != 1 {
		t.Fatalf("hits: %v", hits)
	}
	insert(reply, newestQuestion(reply), recallText(hits, zoneOf("Asia/Tokyo")))
	want := "<memoryd_recall>\n<message role=\"user\" date=\"2026-03-02\">I drink &lt;message> tea.</message>\n" +
		"</memoryd_recall>"
	if found := reply.GetMessages()[0]; found.GetText() != want || found.GetRole() != "user" {
		t.Errorf("%q", found.GetText())
	}
	if reply.GetTokenCount() != 10+int64(len(want)+3)/4 {
		t.Errorf("%d tokens", reply.GetTokenCount())
	}
}

func TestBlocksHaveTheOptionsThatTheServerReads(t *testing.T) {
	for want, block := range map[string]*Block{
		`static static 0  `: StaticBlock{Content: []*Part{TextPart("x")}}.Block(),
		`fact-extraction facts 2  {"model":"chat","max_facts":9,"ttl":90,"accept_short_term_memory":false}`: FactsBlock{
			Model: "chat", MaxFacts: 9, TTL: 90 * time.Second,
			BlockOptions: BlockOptions{Priority: 2, NotFed: true}}.Block(),
		`vector v 0 w {"template":"{content}","embedder":"e","retrieval_context_window":0,"similarity_threshold":0}`: VectorBlock{
			Embedder: "e", Worker: "w", RetrievalContextWindow: proto.Int64(0), SimilarityThreshold: proto.Float64(0),
			BlockOptions: BlockOptions{Name: "v", Template: "{content}"}}.Block(),
		`summary summary 0  {"model":"m","max_tokens":64}`: SummaryBlock{Model: "m", MaxTokens: 64}.Block(),
		`entity entities 0  {"model":"m"}`:                 EntitiesBlock{Model: "m"}.Block(),
		`session user 0  {"session_id":"<a>"}`:             blockOf("<a>"),
		`worker mine 0 w {"n":1}`: WorkerBlock{BlockOptions: BlockOptions{Name: "mine"}, Worker: "w",
			Options: map[string]any{"n": 1}}.Block(),
	} {
		found := strings.Join([]string{block.GetKind(), block.GetName(), decimal(int64(block.GetPriority())),
			block.GetWorker(), block.GetOptionsJson()}, " ")
		if found != want {
			t.Errorf("%s, not %s", found, want)
		}
	}
}

func TestTheEnvironmentSaysWhereTheServerIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MEMORYD_TARGET", "unix:/run/m.sock")
	t.Setenv("MEMORYD_TOKEN_FILE", file)
	t.Setenv("MEMORYD_CA_FILE", "/nowhere") // Not for UNIX sockets.
	found, err := settingsOf("", nil)
	if err != nil || found.target != "unix:/run/m.sock" || found.tls != nil {
		t.Fatalf("%v, %v", found, err)
	}
	for _, want := range []string{"first", "second"} {
		if token, err := found.token(t.Context()); token != want || err != nil {
			t.Errorf("%q, %v", token, err)
		}
		if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if given, _ := settingsOf("h:1", nil); given.token != nil || given.target != "h:1" {
		t.Error("a given target takes the environment's token")
	}
	t.Setenv("MEMORYD_TARGET", "h:1")
	if _, err := settingsOf("", nil); err == nil || !strings.Contains(err.Error(), "MEMORYD_CA_FILE") {
		t.Errorf("no certificate: %v", err)
	}
}

func TestItemsAreDecodedByTheirKind(t *testing.T) {
	var into struct{ Drinks string }
	item := &Item{Value: &memorydpb.Item_Json{Json: `{"drinks":"tea"}`}}
	if err := DecodeItem(item, &into); err != nil || into.Drinks != "tea" {
		t.Errorf("%v, %v", into, err)
	}
	var bytes []byte
	if err := DecodeItem(&Item{Value: &memorydpb.Item_BytesValue{BytesValue: []byte("x")}}, &bytes); err != nil ||
		string(bytes) != "x" {
		t.Errorf("%q, %v", bytes, err)
	}
	if err := DecodeItem(&Item{}, &into); err == nil {
		t.Error("a value out of nothing")
	}
}

// Notices, states and names of blocks, which are no reasons of errors.
var noReasons = []string{
	"NO_WORD_VECTORS", "NO_EMBEDDING", "EMBEDDINGS_PENDING", "EMBEDDING_SIZE", "EMBEDDING_MODEL", "LOG_READ",
}

func TestEachReasonOfTheProtosHasAConstant(t *testing.T) {
	source, err := os.ReadFile("reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	protos, err := filepath.Glob("../../proto/memoryd/v1/*.proto")
	if err != nil || len(protos) == 0 {
		t.Skip("outside of the repository")
	}
	for _, path := range protos {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile("`([A-Z]+(?:_[A-Z]+)+)`").FindAllSubmatch(text, -1) {
			reason := string(found[1])
			if !slices.Contains(noReasons, reason) && !strings.Contains(string(source), `"`+reason+`"`) {
				t.Errorf("%s: %s", filepath.Base(path), reason)
			}
		}
	}
}

func TestEachRPCHasAMethod(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, file := range []protoreflect.FileDescriptor{
		memorydpb.File_memoryd_v1_block_service_proto, memorydpb.File_memoryd_v1_item_service_proto,
		memorydpb.File_memoryd_v1_job_service_proto, memorydpb.File_memoryd_v1_memory_service_proto,
		memorydpb.File_memoryd_v1_server_service_proto, memorydpb.File_memoryd_v1_session_service_proto,
	} {
		service := file.Services().Get(0)
		for index := range service.Methods().Len() {
			name := string(service.Name()) + "_" + string(service.Methods().Get(index).Name()) + "_FullMethodName"
			if !strings.Contains(source.String(), "memorydpb."+name) {
				t.Error(name)
			}
		}
	}
}
