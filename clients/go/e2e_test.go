package memoryd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memoryd/memoryd/clients/go"
	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// realServer is a memoryd of MEMORYD_TEST_BINARY on a store of its own.
type realServer struct {
	binary, store, target string
	process               *exec.Cmd
	arguments             []string
}

// newServer starts a server; the test is left out where there is no binary.
func newServer(t *testing.T, arguments ...string) *realServer {
	t.Helper()
	server := &realServer{
		binary: os.Getenv("MEMORYD_TEST_BINARY"), store: "sqlite:" + filepath.Join(t.TempDir(), "memory.db"),
		target: reservedPort(t), arguments: arguments,
	}
	if server.binary == "" {
		t.Skip("MEMORYD_TEST_BINARY is not set")
	}
	server.start(t)
	t.Cleanup(func() { server.end(t, syscall.SIGTERM) })
	return server
}

func reservedPort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (s *realServer) start(t *testing.T) {
	t.Helper()
	s.process = exec.Command(s.binary, append([]string{
		"--listen=" + s.target, "--store=" + s.store}, s.arguments...)...)
	output, err := s.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.process.Stderr = s.process.Stdout
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
		if strings.Contains(lines.Text(), "listening on ") {
			go func() {
				for lines.Scan() { // So that it never waits for its reader.
				}
			}()
			return
		}
	}
	t.Fatalf("the server has ended:\n%s", strings.Join(said, "\n"))
}

func (s *realServer) end(t *testing.T, signal os.Signal) {
	t.Helper()
	_ = s.process.Process.Signal(signal)
	if err := s.process.Wait(); err != nil && signal == syscall.SIGTERM {
		t.Errorf("the server ended with %v", err)
	}
}

func (s *realServer) client(t *testing.T, options ...memoryd.Option) *memoryd.Client {
	t.Helper()
	client, err := memoryd.New(s.target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// must returns a result without error.
func must[R any](t *testing.T) func(R, error) R {
	return func(result R, err error) R {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

func TestMessagesOfASession(t *testing.T) {
	ctx, session := t.Context(), newServer(t).client(t).Session("s1")
	put := must[*memorydpb.PutResponse](t)(session.Put(ctx, []*memoryd.Message{
		memoryd.Text("user", "I like tea."), memoryd.Text("assistant", "Noted."),
		memoryd.Text("user", "And coffee."),
	}, memoryd.WithContents(memoryd.TextContent("Likes cake."))))
	all := must[[]*memoryd.Message](t)(memoryd.Collect(session.All(ctx, memoryd.PageSize(2))))
	newest := must[[]*memoryd.Message](t)(memoryd.Collect(session.All(ctx, memoryd.NewestFirst())))
	if len(all) != 3 || all[0].GetText() != "I like tea." || newest[0].GetText() != "And coffee." {
		t.Errorf("%v, newest first %v", all, newest)
	}
	streamed := must[[]*memoryd.Message](t)(memoryd.Collect(session.Stream(ctx,
		memoryd.Matching(&memoryd.Filter{Roles: []string{"user"}}),
		memoryd.OfStatus(memorydpb.MessageStatus_MESSAGE_STATUS_ACTIVE))))
	if len(streamed) != 2 {
		t.Errorf("streamed: %v", streamed)
	}
	if count := must[int64](t)(session.Count(ctx)); count != 3 {
		t.Errorf("%d messages", count)
	}
	if reply := must[*memorydpb.GetResponse](t)(session.Get(ctx, memoryd.Explain())); len(reply.GetMessages()) != 3 ||
		reply.GetExplanation() == nil {
		t.Errorf("context: %v", reply)
	}
	hits := must[*memorydpb.QueryResponse](t)(session.Query(ctx, "tea", memoryd.TopK(1))).GetResults()
	if len(hits) != 1 || memoryd.TextOfHit(hits[0]) != "I like tea." || memoryd.SaidAt(hits[0]).IsZero() {
		t.Errorf("hits: %v", hits)
	}
	must[*memorydpb.UpdateMessageResponse](t)(session.UpdateMessage(ctx, put.GetMessageIds()[1],
		memoryd.MessageChange{Text: new("Noted!")}))
	must[*memorydpb.DeleteMessageResponse](t)(session.DeleteMessage(ctx, put.GetMessageIds()[0], false))
	content := put.GetContentIds()[0]
	must[*memorydpb.UpdateContentResponse](t)(session.UpdateContent(ctx, content,
		memoryd.ContentChange{Text: new("Likes pie.")}))
	if found := must[*memoryd.Content](t)(session.Content(ctx, content)); found.GetText() != "Likes pie." {
		t.Errorf("content: %v", found)
	}
	if found := must[[]*memoryd.Content](t)(memoryd.Collect(session.Contents(ctx))); len(found) != 1 {
		t.Errorf("contents: %v", found)
	}
	updated := must[*memorydpb.UpdateContextResponse](t)(session.UpdateContext(ctx, hello()))
	if len(updated.GetMessages()) < 2 {
		t.Errorf("nothing inserted: %v", updated)
	}
	if _, err := session.Say(ctx, "user", "Late.", memoryd.IfRevision(1)); !errors.Is(err, memoryd.ErrRevisionMismatch) {
		t.Errorf("an old revision: %v", err)
	}
	must[*memorydpb.DeleteContentResponse](t)(session.DeleteContent(ctx, content))
	must[*memorydpb.SetResponse](t)(session.Set(ctx, hello()))
	must[*memorydpb.ResetResponse](t)(session.Reset(ctx, memorydpb.ResetScope_RESET_SCOPE_EVERYTHING))
	if count := must[int64](t)(session.Count(ctx)); count != 0 {
		t.Errorf("%d messages after a Reset", count)
	}
}

func TestTheLifeOfASession(t *testing.T) {
	ctx, client := t.Context(), newServer(t).client(t)
	session := client.Session("trip")
	must[*memoryd.SessionInfo](t)(session.Create(ctx, &memoryd.SessionConfig{
		TokenLimit: new(int64(8000)), Subject: new("ann"),
		Blocks: []*memoryd.Block{memoryd.StaticBlock{Content: []*memoryd.Part{memoryd.TextPart("Be brief.")}}.Block()},
	}))
	if _, err := session.Create(ctx, nil); !errors.Is(err, memoryd.ErrSessionExists) {
		t.Errorf("created twice: %v", err)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changes := make(chan memorydpb.SessionChange, 16)
	go func() {
		defer close(changes)
		for news, err := range session.Watch(watching) {
			if err != nil {
				return
			}
			if len(news.GetChanges()) == 0 {
				changes <- memorydpb.SessionChange_SESSION_CHANGE_UNSPECIFIED
			}
			for _, change := range news.GetChanges() {
				changes <- change
			}
		}
	}()
	<-changes // It is there.
	must[*memorydpb.PutResponse](t)(session.Say(ctx, "user", "To Lyon."))
	if change := <-changes; change != memorydpb.SessionChange_SESSION_CHANGE_MESSAGES_PUT {
		t.Errorf("watched: %v", change)
	}
	info := must[*memoryd.SessionInfo](t)(session.Update(ctx, &memoryd.SessionConfig{TokenLimit: new(int64(4000))}))
	if info.GetConfig().GetTokenLimit() != 4000 || len(info.GetConfig().GetBlocks()) != 1 {
		t.Errorf("updated: %v", info)
	}
	must[*memorydpb.ForkSessionResponse](t)(session.Fork(ctx, "copy", memoryd.UpToPosition(1)))
	listed := must[[]*memoryd.SessionInfo](t)(memoryd.Collect(client.Sessions(ctx, memoryd.OfSubject("ann"))))
	if len(listed) != 2 {
		t.Errorf("sessions: %v", listed)
	}
	made := must[*memoryd.SessionInfo](t)(client.Session("moved").Import(ctx,
		memoryd.NewImport(info.GetConfig(), info.GetCreateTime().AsTime()), session.Stream(ctx), session.Contents(ctx)))
	if made.GetActiveCount() != 1 {
		t.Errorf("imported: %v", made)
	}
	must[*memorydpb.DeleteSessionResponse](t)(session.Delete(ctx))
	for change := range changes {
		if change == memorydpb.SessionChange_SESSION_CHANGE_DELETED {
			break
		}
	}
	if _, err := session.Info(ctx); !errors.Is(err, memoryd.ErrSessionNotFound) {
		t.Errorf("deleted: %v", err)
	}
	for erased := false; !erased; {
		erased = must[*memorydpb.EraseSubjectResponse](t)(client.EraseSubject(ctx, "ann", false)).GetPurged()
	}
	if len(must[*memorydpb.GetServerInfoResponse](t)(client.ServerInfo(ctx)).GetProfiles()) == 0 {
		t.Error("a server without profiles")
	}
	must[*memorydpb.GetUsageResponse](t)(client.Usage(ctx))
}

func TestItemsOfNamespaces(t *testing.T) {
	ctx, client := t.Context(), newServer(t).client(t)
	ada := client.Namespace("users", "ada")
	first := must[*memorydpb.ItemWrite](t)(ada.Put(ctx, "diet", map[string]string{"drinks": "tea"},
		memoryd.IfVersion(0), memoryd.TTL(time.Hour)))
	if _, err := ada.Put(ctx, "diet", 1, memoryd.IfVersion(0)); !errors.Is(err, memoryd.ErrVersionMismatch) {
		t.Errorf("stored twice: %v", err)
	}
	var diet struct{ Drinks string }
	item := must[*memoryd.Item](t)(ada.Get(ctx, "diet"))
	if err := memoryd.DecodeItem(item, &diet); err != nil || diet.Drinks != "tea" || item.GetVersion() != first.GetVersion() {
		t.Errorf("%v, %v", item, err)
	}
	if item := must[*memoryd.Item](t)(ada.Get(ctx, "nothing")); item != nil {
		t.Errorf("there is %v", item)
	}
	put := must[*memorydpb.ItemOperation](t)(memoryd.PutOperation("raw", []byte{0, 1}, memoryd.MIMEType("a/b")))
	outcomes := must[[]*memorydpb.ItemBatchOutcome](t)(client.Batch(ctx,
		ada.Batch(put, memoryd.GetOperation("diet")),
		client.Namespace("users", "bob").Batch(memoryd.DeleteOperation("x", memoryd.IfVersion(9)))))
	if memoryd.OutcomeError(outcomes[0]) != nil || !errors.Is(memoryd.OutcomeError(outcomes[1]), memoryd.ErrVersionMismatch) {
		t.Errorf("outcomes: %v", outcomes)
	}
	found := must[*memorydpb.SearchItemsResponse](t)(client.Namespace("users").Search(ctx,
		&memorydpb.SearchItemsRequest{Query: "tea", FilterJson: `{"drinks":"tea"}`}))
	if len(found.GetResults()) != 1 {
		t.Errorf("found: %v", found)
	}
	must[*memorydpb.CopyNamespaceResponse](t)(ada.CopyTo(ctx, false, "users", "eve"))
	items := ada.Items(ctx, &memorydpb.ListItemsRequest{
		Order: memorydpb.ItemOrder_ITEM_ORDER_OLDEST_FIRST, WithVectors: true, PageSize: 1})
	must[*memorydpb.Namespace](t)(client.Namespace("moved").Import(ctx, nil, items))
	paths := must[[]*memorydpb.Namespace](t)(memoryd.Collect(client.Namespaces(ctx, nil)))
	if len(paths) != 3 {
		t.Errorf("namespaces: %v", paths)
	}
	must[*memorydpb.Namespace](t)(ada.Update(ctx, &memorydpb.NamespaceConfig{Subject: new("ada")}))
	if info := must[*memorydpb.Namespace](t)(ada.Info(ctx)); info.GetItemCount() != 2 {
		t.Errorf("info: %v", info)
	}
	if !must[bool](t)(ada.Delete(ctx, "raw")) {
		t.Error("nothing was deleted")
	}
	must[*memorydpb.DeleteNamespaceResponse](t)(client.Namespace("users").DeleteAll(ctx, true))
	if _, err := ada.Info(ctx); !errors.Is(err, memoryd.ErrNamespaceNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

func TestWhatAUserSaysIsKnownInTheNextConversation(t *testing.T) {
	ctx, client := t.Context(), newServer(t).client(t)
	ann := client.User("ann")
	must[*memorydpb.PutResponse](t)(ann.RememberText(ctx, "I drink tea, never coffee.", memoryd.Wait(5*time.Second)))
	hits := must[*memorydpb.QueryResponse](t)(ann.Recall(ctx, "What may I offer to drink, tea?")).GetResults()
	if len(hits) == 0 || memoryd.TextOfHit(hits[0]) != "I drink tea, never coffee." {
		t.Errorf("hits: %v", hits)
	}
	made := must[*memoryd.UserContext](t)(ann.Context(ctx, "sunday",
		[]*memoryd.Message{memoryd.Text("user", "Do I drink tea or coffee?")}))
	if len(made.Recalled) != 1 || !strings.Contains(memoryd.TextOf(made.GetMessages()[0]), "never coffee") {
		t.Errorf("context: %v", made)
	}
	again := must[*memoryd.UserContext](t)(ann.Context(ctx, "sunday", nil, memoryd.Recalled(0)))
	if len(again.GetMessages()) != 1 {
		t.Errorf("without recall: %v", again)
	}
	if _, err := client.User("bob").Context(ctx, "sunday", hello()); !errors.Is(err, memoryd.ErrNotTheUsers) {
		t.Errorf("another user's conversation: %v", err)
	}
	// A conversation with a configuration that this client did not make.
	session := must[*memoryd.Session](t)(ann.Session())
	must[*memoryd.SessionInfo](t)(session.Update(ctx, &memoryd.SessionConfig{TokenLimit: new(int64(9000))}))
	must[*memorydpb.PutResponse](t)(ann.RememberText(ctx, "I live in Lyon."))
	if count := must[int64](t)(session.Count(ctx)); count != 3 {
		t.Errorf("%d messages", count)
	}
}

func TestAWorkersBlocksModelsAndEmbeddersServeSessions(t *testing.T) {
	server := newServer(t)
	ctx, client := t.Context(), server.client(t)
	worker, err := memoryd.NewWorker(server.target, "mine")
	if err != nil {
		t.Fatal(err)
	}
	worker.Block("mentions", mentions())
	worker.Model("notes", func(context.Context, []*memoryd.Message, int64) (*memoryd.Answer, error) {
		return &memoryd.Answer{Text: "Logan came up.", Usage: memoryd.CallUsage{PromptTokens: 5}}, nil
	})
	worker.Embedder("ones", func(_ context.Context, texts []string, _ memorydpb.EmbedPurpose) (*memoryd.Embeddings, error) {
		made := &memoryd.Embeddings{}
		for range texts {
			made.Vectors = append(made.Vectors, []float32{1, 1})
		}
		return made, nil
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := worker.Run(running); err != nil {
			t.Error(err)
		}
	}()
	defer func() {
		stop()
		until(t, ended)
	}()
	until(t, worker.Attached())
	session := client.Session("s1")
	must[*memoryd.SessionInfo](t)(session.Create(ctx, &memoryd.SessionConfig{
		ChatHistoryTokenRatio: new(0.0),
		Blocks: []*memoryd.Block{
			memoryd.WorkerBlock{BlockOptions: memoryd.BlockOptions{Name: "mentions"}, Worker: "mine"}.Block(),
			memoryd.SummaryBlock{Model: "notes", Worker: "mine"}.Block(),
			memoryd.VectorBlock{Embedder: "ones", Worker: "mine"}.Block(),
		},
	}))
	for turn := range 3 {
		reply := must[*memorydpb.PutResponse](t)(session.Say(ctx, "user", fmt.Sprintf("Logan, turn %d.", turn),
			memoryd.Wait(10*time.Second)))
		if len(reply.GetOpenJobs()) != 0 {
			t.Fatalf("open: %v", reply.GetOpenJobs())
		}
	}
	known := must[*memorydpb.GetBlockResponse](t)(session.Block("mentions").Get(ctx))
	if string(known.GetWorkerState()) != "2" {
		t.Errorf("state: %v", known)
	}
	summary := must[*memorydpb.GetBlockResponse](t)(session.Block("summary").Get(ctx))
	if summary.GetSummary().GetText() != "Logan came up." {
		t.Errorf("summary: %v", summary)
	}
	entries := must[[]*memorydpb.BlockEntry](t)(memoryd.Collect(session.Block("vector").Entries(ctx)))
	if len(entries) == 0 || entries[0].GetDimensions() != 2 {
		t.Errorf("entries: %v", entries)
	}
	text := must[*memorydpb.GetResponse](t)(session.Get(ctx)).String()
	if !strings.Contains(text, "Logan Logan") || !strings.Contains(text, "Logan came up.") {
		t.Errorf("context: %s", text)
	}
	jobs := must[[]*memoryd.Job](t)(memoryd.Collect(session.Jobs(ctx, memorydpb.JobState_JOB_STATE_UNSPECIFIED)))
	if len(jobs) < 3 || jobs[0].GetJobId() != must[*memoryd.Job](t)(session.Job(ctx, jobs[0].GetJobId())).GetJobId() {
		t.Errorf("jobs: %v", jobs)
	}
}

func TestFactsOfABlock(t *testing.T) {
	ctx, session := t.Context(), newServer(t).client(t).Session("s1")
	must[*memoryd.SessionInfo](t)(session.Create(ctx, &memoryd.SessionConfig{Blocks: []*memoryd.Block{
		memoryd.FactsBlock{Model: "chat", Worker: "nobody"}.Block()}}))
	facts := session.Block("facts")
	added := must[*memorydpb.AddFactResponse](t)(facts.AddFact(ctx, "Ann drinks tea.", memoryd.Trust(0.5)))
	if _, err := facts.AddFact(ctx, "Ann drinks tea."); !errors.Is(err, memoryd.ErrFactExists) {
		t.Errorf("added twice: %v", err)
	}
	id := added.GetFact().GetFactId()
	must[*memorydpb.UpdateFactResponse](t)(facts.UpdateFact(ctx, id, "Ann drinks green tea."))
	deleted := must[*memorydpb.DeleteFactResponse](t)(facts.DeleteFact(ctx, id))
	undone := must[*memorydpb.UndoBlockChangeResponse](t)(facts.Undo(ctx, deleted.GetChange()))
	if len(undone.GetFacts()) != 1 || undone.GetFacts()[0].GetText() != "Ann drinks green tea." {
		t.Errorf("undone: %v", undone)
	}
}
