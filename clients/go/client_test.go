package memoryd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/memoryd/memoryd/clients/go"
	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

func hello() []*memoryd.Message { return []*memoryd.Message{memoryd.Text("user", "hello")} }

func TestAPutWithoutAnswerIsRepeatedUnderItsRequestID(t *testing.T) {
	server := &fakeServer{}
	server.put = func(*memorydpb.PutRequest) (*memorydpb.PutResponse, error) {
		if server.attempts() < 3 {
			return nil, status.Error(codes.Unavailable, "reset")
		}
		return &memorydpb.PutResponse{Revision: 1<<63 - 1, Generation: 1<<64 - 1}, nil
	}
	reply, err := clientOf(t, server).Session("s").Put(t.Context(), hello())
	if err != nil {
		t.Fatal(err)
	}
	if reply.GetRevision() != 1<<63-1 || reply.GetGeneration() != 1<<64-1 {
		t.Errorf("bits are missing: %v", reply)
	}
	var ids []string
	for _, request := range server.asked {
		ids = append(ids, request.(*memorydpb.PutRequest).GetRequestId())
	}
	if len(ids) != 3 || ids[0] == "" || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("request ids: %q", ids)
	}
}

func TestTheErrorThatLeftTheOutcomeOpenIsReturned(t *testing.T) {
	for name, later := range map[string]error{
		"store away": refusal(codes.Unavailable, "STORE_UNAVAILABLE", nil),
		"queue full": refusal(codes.ResourceExhausted, "QUEUE_FULL", nil),
		"bad token":  refusal(codes.Unauthenticated, "UNAUTHENTICATED", nil),
	} {
		server := &fakeServer{}
		server.put = func(*memorydpb.PutRequest) (*memorydpb.PutResponse, error) {
			if server.attempts() == 1 {
				return nil, status.Error(codes.Unavailable, "reset")
			}
			return nil, later
		}
		client := clientOf(t, server, memoryd.WithTimeout(300*time.Millisecond))
		_, err := client.Session("s").Put(t.Context(), hello())
		if status.Code(err) != codes.Unavailable || !memoryd.MayHaveBeenDone(err) ||
			!strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARefusedCallComesAgainWhenTheServerSays(t *testing.T) {
	server := &fakeServer{}
	server.retry = func() (*memorydpb.RetryJobResponse, error) {
		if server.attempts() == 1 {
			return nil, refusal(codes.ResourceExhausted, "TENANT_RATE", map[string]string{"retry_after_ms": "100"})
		}
		return &memorydpb.RetryJobResponse{Job: &memorydpb.Job{JobId: "2"}}, nil
	}
	client := clientOf(t, server)
	begin := time.Now()
	job, err := client.Session("s").RetryJob(t.Context(), "1")
	if err != nil || job.GetJobId() != "2" || time.Since(begin) < 100*time.Millisecond {
		t.Errorf("%v, %v after %v", job, err, time.Since(begin))
	}

	server.asked = nil
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Session("s").RetryJob(ctx, "1")
	var found *memoryd.Error
	if !errors.As(err, &found) || found.RetryAfter != 100*time.Millisecond {
		t.Errorf("beyond the deadline: %v", err)
	}
}

func TestAJobIsRetriedOnce(t *testing.T) {
	server := &fakeServer{retry: func() (*memorydpb.RetryJobResponse, error) {
		return nil, status.Error(codes.Unavailable, "reset")
	}}
	_, err := clientOf(t, server).Session("s").RetryJob(t.Context(), "1")
	if status.Code(err) != codes.Unavailable || server.attempts() != 1 {
		t.Errorf("%v after %d attempts", err, server.attempts())
	}
}

func TestErrorsAreFoundByReasonAndCode(t *testing.T) {
	server := &fakeServer{put: func(*memorydpb.PutRequest) (*memorydpb.PutResponse, error) {
		return nil, refusal(codes.Aborted, "REVISION_MISMATCH",
			map[string]string{"current_revision": "9007199254740993", "field": "expected_revision"})
	}}
	_, err := clientOf(t, server).Session("s").Put(t.Context(), hello(), memoryd.IfRevision(3))
	err = fmt.Errorf("wrapped: %w", err)
	var found *memoryd.Error
	switch {
	case !errors.Is(err, memoryd.ErrRevisionMismatch), errors.Is(err, memoryd.ErrVersionMismatch):
		t.Errorf("by reason: %v", err)
	case status.Code(err) != codes.Aborted:
		t.Errorf("by code: %v", err)
	case !errors.As(err, &found), found.Field != "expected_revision",
		found.Details["current_revision"] != "9007199254740993", found.Message != "refused":
		t.Errorf("details: %#v", found)
	case memoryd.MayHaveBeenDone(err):
		t.Error("an answer leaves nothing open")
	}
}

func TestTheCallersOwnEndIsItsContexts(t *testing.T) {
	server := &fakeServer{get: func(ctx context.Context) (*memorydpb.GetResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	client := clientOf(t, server, memoryd.WithTimeout(50*time.Millisecond))
	_, err := client.Session("s").Get(t.Context())
	if !errors.Is(err, context.DeadlineExceeded) || !memoryd.MayHaveBeenDone(err) {
		t.Errorf("the client's timeout: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = client.Session("s").Get(ctx)
	if !errors.Is(err, context.Canceled) || status.Code(err) != codes.Canceled {
		t.Errorf("the caller's end: %v", err)
	}
	if server.attempts() != 2 {
		t.Errorf("%d attempts", server.attempts())
	}
}

func TestACallerWhoGivesUpBetweenAttemptsIsCancelled(t *testing.T) {
	server := &fakeServer{put: func(*memorydpb.PutRequest) (*memorydpb.PutResponse, error) {
		return nil, refusal(codes.Unavailable, "STORE_UNAVAILABLE", nil)
	}}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	_, err := clientOf(t, server).Session("s").Put(ctx, hello())
	if !errors.Is(err, context.Canceled) || status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

func TestAClosedClientRepeatsNothing(t *testing.T) {
	server := &fakeServer{}
	began := make(chan struct{})
	server.get = func(ctx context.Context) (*memorydpb.GetResponse, error) {
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	client := clientOf(t, server)
	go func() {
		<-began
		_ = client.Close()
	}()
	begin := time.Now()
	_, err := client.Session("s").Get(t.Context())
	if err == nil || time.Since(begin) > 5*time.Second || server.attempts() != 1 {
		t.Errorf("%v after %v and %d attempts", err, time.Since(begin), server.attempts())
	}
}

func TestEachAttemptHasTheTokenOfItsMoment(t *testing.T) {
	server := &fakeServer{}
	server.put = func(*memorydpb.PutRequest) (*memorydpb.PutResponse, error) {
		if server.attempts() == 1 {
			return nil, status.Error(codes.Unavailable, "reset")
		}
		return &memorydpb.PutResponse{}, nil
	}
	tokens := []string{"one", "two"}
	failure := errors.New("no token today")
	client := clientOf(t, server, memoryd.WithTokenSource(func(context.Context) (string, error) {
		if len(tokens) == 0 {
			return "", failure
		}
		token := tokens[0]
		tokens = tokens[1:]
		return token, nil
	}))
	if _, err := client.Session("s").Put(t.Context(), hello()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(server.tokens, []string{"Bearer one", "Bearer two"}) {
		t.Errorf("tokens: %q", server.tokens)
	}
	if _, err := client.Session("s").Put(t.Context(), hello()); !errors.Is(err, failure) {
		t.Errorf("without a token: %v", err)
	}
}

func TestAWatchGoesOnAfterItsLastRevisionHoweverLongItWasIdle(t *testing.T) {
	server := &fakeServer{}
	server.watch = func(
		r *memorydpb.WatchSessionRequest, stream grpc.ServerStreamingServer[memorydpb.WatchSessionResponse],
	) error {
		if r.AfterRevision == nil {
			if err := stream.Send(&memorydpb.WatchSessionResponse{Revision: 7}); err != nil {
				return err
			}
			// Longer than the client's timeout.
			time.Sleep(250 * time.Millisecond)
			return refusal(codes.Unavailable, "DRAINING", nil)
		}
		return stream.Send(&memorydpb.WatchSessionResponse{
			Revision: r.GetAfterRevision() + 1,
			Changes:  []memorydpb.SessionChange{memorydpb.SessionChange_SESSION_CHANGE_DELETED},
		})
	}
	client := clientOf(t, server, memoryd.WithTimeout(200*time.Millisecond))
	news, err := memoryd.Collect(client.Session("s").Watch(t.Context()))
	if err != nil || len(news) != 2 || news[1].GetRevision() != 8 {
		t.Errorf("%v, %v", news, err)
	}
}

func TestAnIteratorMayBeUsedTwice(t *testing.T) {
	server := &fakeServer{watch: func(
		r *memorydpb.WatchSessionRequest, stream grpc.ServerStreamingServer[memorydpb.WatchSessionResponse],
	) error {
		return stream.Send(&memorydpb.WatchSessionResponse{
			Revision: 5 + r.GetAfterRevision(),
			Changes:  []memorydpb.SessionChange{memorydpb.SessionChange_SESSION_CHANGE_DELETED},
		})
	}}
	news := clientOf(t, server).Session("s").Watch(t.Context())
	for range 2 {
		for one, err := range news {
			if err != nil || one.GetRevision() != 5 {
				t.Errorf("%v, %v", one, err)
			}
		}
	}
}

func TestAnImportIsCutIntoRequestsAndCounted(t *testing.T) {
	server := &fakeServer{}
	client := clientOf(t, server)
	messages := func(yield func(*memoryd.Message, error) bool) {
		for range 601 {
			if !yield(memoryd.Text("user", "x"), nil) {
				return
			}
		}
		yield(memoryd.Text("user", strings.Repeat("y", 600<<10)), nil)
	}
	info, err := client.Session("s").Import(t.Context(), nil, messages, nil)
	if err != nil || info.GetRevision() != 1<<60 {
		t.Fatalf("%v, %v", info, err)
	}
	var sizes []int
	for _, request := range server.imports {
		if items := request.GetItems(); items != nil {
			sizes = append(sizes, len(items.GetMessages()))
		}
	}
	if !slices.Equal(sizes, []int{250, 250, 101, 1}) {
		t.Errorf("items of each request: %v", sizes)
	}
	if end := server.imports[len(server.imports)-1].GetEnd(); end.GetMessageCount() != 602 {
		t.Errorf("end: %v", end)
	}
}

func TestAnImportWhoseIteratorFailsMakesNothing(t *testing.T) {
	server := &fakeServer{}
	failure := errors.New("the file is cut")
	_, err := clientOf(t, server).Session("s").Import(t.Context(), nil,
		func(yield func(*memoryd.Message, error) bool) {
			if yield(memoryd.Text("user", "x"), nil) {
				yield(nil, failure)
			}
		}, nil)
	if !errors.Is(err, failure) {
		t.Error(err)
	}
	for _, request := range server.imports {
		if request.GetEnd() != nil {
			t.Error("the import was ended")
		}
	}
}

func TestABatchThatWritesHasARequestID(t *testing.T) {
	server := &fakeServer{}
	client := clientOf(t, server)
	put, err := memoryd.PutOperation("k", map[string]any{"n": 1})
	if err != nil {
		t.Fatal(err)
	}
	writes := client.Namespace("a").Batch(put)
	_, err = client.Batch(t.Context(), writes, client.Namespace("b").Batch(memoryd.GetOperation("k")))
	if err != nil {
		t.Fatal(err)
	}
	batches := server.asked[0].(*memorydpb.BatchItemsRequest).GetBatches()
	if batches[0].GetRequestId() == "" || batches[1].RequestId != nil || writes.RequestId != nil {
		t.Errorf("request ids: %v", batches)
	}
}

func TestEachPutOfABatchHasARequestID(t *testing.T) {
	server := &fakeServer{}
	client := clientOf(t, server)
	mine := "mine"
	puts := []*memorydpb.PutRequest{{SessionId: "a"}, {SessionId: "b", RequestId: &mine}}
	if _, err := client.PutBatch(t.Context(), puts...); err != nil {
		t.Fatal(err)
	}
	sent := server.asked[0].(*memorydpb.PutBatchRequest).GetPuts()
	if sent[0].GetRequestId() == "" || sent[1].GetRequestId() != "mine" || puts[0].RequestId != nil {
		t.Errorf("request ids: %v", sent)
	}
}

func TestAPutOfABatchFailsAsOneAlone(t *testing.T) {
	if err := memoryd.PutOutcomeError(&memorydpb.PutOutcome{}); err != nil {
		t.Error(err)
	}
	err := memoryd.PutOutcomeError(&memorydpb.PutOutcome{Outcome: &memorydpb.PutOutcome_Error{
		Error: &memorydpb.PutError{Code: 8, Reason: "TENANT_RATE", Message: "too many",
			Metadata: map[string]string{"retry_after_ms": "20", "field": "puts[0].messages"}}}})
	var found *memoryd.Error
	if !errors.As(err, &found) || found.RetryAfter != 20*time.Millisecond || found.Field != "puts[0].messages" {
		t.Errorf("got %#v", err)
	}
	if !errors.Is(err, memoryd.Reason("TENANT_RATE")) || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
}

func TestWithoutRetriesNothingIsRepeated(t *testing.T) {
	server := &fakeServer{put: func(*memorydpb.PutRequest) (*memorydpb.PutResponse, error) {
		return nil, status.Error(codes.Unavailable, "reset")
	}}
	_, err := clientOf(t, server, memoryd.WithoutRetries()).Session("s").Put(t.Context(), hello())
	if status.Code(err) != codes.Unavailable || server.attempts() != 1 {
		t.Errorf("%v after %d attempts", err, server.attempts())
	}
}
