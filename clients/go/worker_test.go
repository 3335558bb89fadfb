package memoryd_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/memoryd/memoryd/clients/go"
	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

type attached = grpc.BidiStreamingServer[memorydpb.AttachRequest, memorydpb.AttachResponse]

// mentions counts how often a name is said.
func mentions() memoryd.CustomBlock {
	return memoryd.StateBlock(
		func(_ context.Context, messages []*memoryd.Message, count int) (int, error) {
			for _, message := range messages {
				count += strings.Count(memoryd.TextOf(message), "Logan")
			}
			return count, nil
		},
		func(_ context.Context, _ []*memoryd.Message, count int) (string, error) {
			return strings.Repeat("Logan ", count), nil
		})
}

func workerOf(t *testing.T, server *fakeServer) *memoryd.Worker {
	t.Helper()
	worker, err := memoryd.NewWorker("passthrough:///fake", "mine", append(serving(t, server),
		memoryd.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	worker.Block("mentions", mentions())
	worker.Model("shout", func(_ context.Context, messages []*memoryd.Message, _ int64) (*memoryd.Answer, error) {
		text := strings.ToUpper(memoryd.TextOf(messages[len(messages)-1]))
		return &memoryd.Answer{Text: text, FinishReason: "stop", Usage: memoryd.CallUsage{PromptTokens: 3}}, nil
	})
	worker.Model("slow", func(ctx context.Context, _ []*memoryd.Message, _ int64) (*memoryd.Answer, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	worker.Model("broken", func(context.Context, []*memoryd.Message, int64) (*memoryd.Answer, error) {
		panic("out of order")
	})
	worker.Model("long", func(context.Context, []*memoryd.Message, int64) (*memoryd.Answer, error) {
		return &memoryd.Answer{Text: strings.Repeat("x", 5000)}, nil
	})
	worker.Model("who", func(ctx context.Context, _ []*memoryd.Message, _ int64) (*memoryd.Answer, error) {
		return &memoryd.Answer{Text: memoryd.CurrentCall(ctx).GetSessionId()}, nil
	})
	worker.Embedder("lengths", func(
		_ context.Context, texts []string, _ memorydpb.EmbedPurpose,
	) (*memoryd.Embeddings, error) {
		made := &memoryd.Embeddings{}
		for _, text := range texts {
			made.Vectors = append(made.Vectors, []float32{float32(len(text))})
		}
		return made, nil
	})
	return worker
}

// asking attaches the worker. It returns what sends to it, and what waits for its next result.
func asking(t *testing.T) (chan<- *memorydpb.AttachResponse, func() *memorydpb.WorkerResult) {
	t.Helper()
	asks, results := make(chan *memorydpb.AttachResponse), make(chan *memorydpb.WorkerResult, 8)
	server := &fakeServer{attach: func(stream attached) error {
		hello, err := stream.Recv()
		if err != nil || hello.GetHello() == nil {
			return errors.New("no hello")
		}
		welcome := &memorydpb.WorkerWelcome{MaxConcurrentCalls: 8, MaxMessageBytes: 4096}
		if err := stream.Send(&memorydpb.AttachResponse{
			Kind: &memorydpb.AttachResponse_Welcome{Welcome: welcome},
		}); err != nil {
			return err
		}
		go func() {
			for {
				request, err := stream.Recv()
				if err != nil {
					return
				}
				results <- request.GetResult()
			}
		}()
		for {
			select {
			case <-stream.Context().Done():
				return nil
			case ask := <-asks:
				if err := stream.Send(ask); err != nil {
					return err
				}
			}
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	serves := workerOf(t, server)
	go func() {
		defer close(ended)
		if err := serves.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		until(t, ended)
	})
	until(t, serves.Attached())
	return asks, func() *memorydpb.WorkerResult {
		select {
		case result := <-results:
			return result
		case <-time.After(10 * time.Second):
			t.Fatal("no result within 10 s")
			return nil
		}
	}
}

func called(call *memorydpb.WorkerCall) *memorydpb.AttachResponse {
	call.CallId, call.SessionId, call.Block = 7, "s1", "mentions"
	if call.Timeout == nil {
		call.Timeout = durationpb.New(5 * time.Second)
	}
	return &memorydpb.AttachResponse{Kind: &memorydpb.AttachResponse_Call{Call: call}}
}

func completing(model string) *memorydpb.WorkerCall {
	return &memorydpb.WorkerCall{Call: &memorydpb.WorkerCall_Complete{
		Complete: &memorydpb.ModelComplete{
			Model: model, Messages: []*memoryd.Message{memoryd.Text("user", "tea")},
		},
	}}
}

func TestAWorkerServesBlocksModelsAndEmbedders(t *testing.T) {
	asks, result := asking(t)
	ask := func(response *memorydpb.AttachResponse) *memorydpb.WorkerResult {
		asks <- response
		return result()
	}
	said := []*memoryd.Message{memoryd.Text("user", "Logan and Logan")}
	put := ask(called(&memorydpb.WorkerCall{Call: &memorydpb.WorkerCall_Put{
		Put: &memorydpb.BlockPut{State: []byte("3"), Messages: said},
	}}))
	if string(put.GetPut().GetState()) != "5" || put.GetCallId() != 7 {
		t.Errorf("put: %v", put)
	}
	got := ask(called(&memorydpb.WorkerCall{Call: &memorydpb.WorkerCall_Get{
		Get: &memorydpb.BlockGet{State: []byte("2")},
	}}))
	if got.GetContent().GetParts()[0].GetText() != "Logan Logan " {
		t.Errorf("get: %v", got)
	}
	completed := ask(called(completing("shout")))
	if completed.GetComplete().GetText() != "TEA" || completed.GetUsage().GetCalls() != 1 ||
		completed.GetUsage().GetPromptTokenCount() != 3 {
		t.Errorf("complete: %v", completed)
	}
	embedded := ask(called(&memorydpb.WorkerCall{Call: &memorydpb.WorkerCall_Embed{
		Embed: &memorydpb.ModelEmbed{Embedder: "lengths", Texts: []string{"a", "bcd"}},
	}}))
	if vectors := embedded.GetEmbed().GetVectors(); len(vectors) != 2 || vectors[1].GetValues()[0] != 3 {
		t.Errorf("embed: %v", embedded)
	}
	if who := ask(called(completing("who"))); who.GetComplete().GetText() != "s1" {
		t.Errorf("the current call: %v", who)
	}
}

func TestWhatAWorkersFunctionFailsWithIsTheAnswer(t *testing.T) {
	asks, result := asking(t)
	ask := func(response *memorydpb.AttachResponse) *memorydpb.WorkerResult {
		asks <- response
		return result()
	}
	late := completing("slow")
	late.Timeout = durationpb.New(20 * time.Millisecond)
	for _, one := range []struct {
		call *memorydpb.WorkerCall
		code codes.Code
	}{
		{late, codes.DeadlineExceeded},
		{completing("broken"), codes.Unknown},
		{completing("nobody"), codes.NotFound},
		{completing("long"), codes.ResourceExhausted},
		{&memorydpb.WorkerCall{}, codes.Unimplemented},
		{&memorydpb.WorkerCall{Call: &memorydpb.WorkerCall_Truncate{
			Truncate: &memorydpb.BlockTruncate{},
		}}, codes.NotFound},
	} {
		result := ask(called(one.call))
		if codes.Code(result.GetError().GetCode()) != one.code || result.GetCallId() != 7 {
			t.Errorf("%v: %v", one.call, result)
		}
	}
}

func TestACancelledCallIsAnswered(t *testing.T) {
	asks, result := asking(t)
	asks <- called(completing("slow"))
	asks <- &memorydpb.AttachResponse{Kind: &memorydpb.AttachResponse_Cancel{
		Cancel: &memorydpb.WorkerCancel{CallId: 7},
	}}
	if answer := result(); codes.Code(answer.GetError().GetCode()) != codes.Canceled {
		t.Error(answer)
	}
}

func TestAWorkerAttachesAgainAndGivesUpForGood(t *testing.T) {
	attempts := 0
	server := &fakeServer{attach: func(stream attached) error {
		attempts++
		switch attempts {
		case 1:
			return refusal(codes.Unavailable, "DRAINING", nil)
		case 2:
			return nil
		}
		return refusal(codes.PermissionDenied, "WORKER_NOT_GRANTED", nil)
	}}
	err := workerOf(t, server).Run(t.Context())
	if !errors.Is(err, memoryd.ErrWorkerNotGranted) || attempts != 3 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
}
