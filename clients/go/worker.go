package memoryd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

const (
	firstWorkerPause   = 50 * time.Millisecond
	longestWorkerPause = 5 * time.Second
	usualConcurrency   = 8
)

// Model completes a chat, oldest message first. maxTokens is the most tokens of the answer. 0: no
// limit; APIs take no 0, so leave it out of their call.
type Model func(ctx context.Context, messages []*Message, maxTokens int64) (*Answer, error)

// Answer is the answer of a [Model].
type Answer struct {
	Text string
	// Why the answer ends, as the model's API says. Of an answer that ends by `length` nothing
	// becomes memory; the model is asked again with more tokens. Empty: the answer is whole.
	FinishReason string
	Usage        CallUsage
}

// Embedder returns one vector for each text, in order.
type Embedder func(
	ctx context.Context, texts []string, purpose memorydpb.EmbedPurpose) (*Embeddings, error)

// Embeddings is the answer of an [Embedder].
type Embeddings struct {
	Vectors [][]float32
	Usage   CallUsage
}

// CallUsage is what a call has used of a model. Calls 0 is one call.
type CallUsage struct {
	Calls, PromptTokens, CompletionTokens int64
}

// Worker serves blocks, models and embedders of this process to one memoryd. It opens the
// connection, so it needs no port. Where there are credentials, the token needs the right `worker`.
// Workers of one name share the calls and must serve the same.
//
// A call's context ends with its time, when the server no longer needs the answer, and when the
// connection breaks. An error of a function fails its call; the server tries a job again.
// [CurrentCall] tells session, job and trace.
type Worker struct {
	name      string
	settings  *settings
	blocks    map[string]CustomBlock
	models    map[string]Model
	embedders map[string]Embedder
	attached  chan struct{}
	greet     sync.Once
	started   bool
	calls     sync.WaitGroup
}

// NewWorker returns a worker. Target and options are as for [New].
func NewWorker(target, name string, options ...Option) (*Worker, error) {
	settings, err := settingsOf(target, options)
	if err != nil {
		return nil, err
	}
	return &Worker{
		name: name, settings: settings, blocks: map[string]CustomBlock{},
		models: map[string]Model{}, embedders: map[string]Embedder{},
		attached: make(chan struct{}),
	}, nil
}

// WithConcurrency is the most calls that a [Worker] takes in parallel, at most 256. Default 8.
func WithConcurrency(calls int) Option {
	return func(s *settings) { s.concurrency = calls }
}

// WithLogger is where a [Worker] logs broken connections and failed calls. Default: slog's default.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) { s.logger = logger }
}

// Block serves a block. Before Run.
func (w *Worker) Block(name string, block CustomBlock) { w.blocks[name] = block }

// Model serves a chat model. Before Run.
func (w *Worker) Model(name string, model Model) { w.models[name] = model }

// Embedder serves an embedder. Before Run.
func (w *Worker) Embedder(name string, embedder Embedder) { w.embedders[name] = embedder }

// Attached is closed when the server has taken the worker for the first time.
func (w *Worker) Attached() <-chan struct{} { return w.attached }

// Run serves until ctx ends, and returns nil then, once the calls under way have returned. A broken
// connection is made again. A worker that the server refuses for good gets its error. A worker runs
// once.
func (w *Worker) Run(ctx context.Context) error {
	if w.started {
		return errors.New("memoryd: a worker runs once")
	}
	w.started = true
	conn, err := w.settings.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	defer w.calls.Wait()
	service := memorydpb.NewWorkerServiceClient(conn)
	pause, failed := firstWorkerPause, false
	for {
		greeted, err := w.serve(ctx, service, failed)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			var ofToken *tokenError
			if errors.As(err, &ofToken) {
				err = ofToken.error
			} else if err = errorOf(ctx, err); forGood(err) {
				return err
			}
			failed = true
			w.settings.log().Warn("memoryd: the worker is not attached", "worker", w.name, "error", err)
		}
		if greeted {
			pause = firstWorkerPause
		}
		// Half to one and a half of the pause, so that many workers don't return as one.
		if sleep(ctx, time.Duration(float64(pause)*(0.5+mathrand.Float64()))) != nil {
			return nil
		}
		pause = min(2*pause, longestWorkerPause)
	}
}

// forGood reports whether another try would change nothing.
func forGood(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return false
}

// serve serves one stream to its end, and returns whether the server has taken the worker.
func (w *Worker) serve(
	ctx context.Context, service memorydpb.WorkerServiceClient, waits bool,
) (greeted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	authorized, err := withToken(ctx, w.settings.token)
	if err != nil {
		return false, err
	}
	// After a failure gRPC waits: only a call that waits brings a connection about.
	attached, err := service.Attach(authorized, grpc.WaitForReady(waits))
	if err != nil {
		return false, err
	}
	stream := &workerStream{worker: w, stream: attached, running: map[int64]context.CancelFunc{}}
	// If it fails Recv has the error.
	_ = stream.send(&memorydpb.AttachRequest{Kind: &memorydpb.AttachRequest_Hello{Hello: w.hello()}})
	err = stream.read(ctx)
	return stream.limit > 0, err
}

func (w *Worker) hello() *memorydpb.WorkerHello {
	hello := &memorydpb.WorkerHello{
		Name: w.name, MaxConcurrentCalls: int32(w.settings.concurrency),
	}
	for name, block := range w.blocks {
		hello.Blocks = append(hello.Blocks, &memorydpb.WorkerBlock{
			Name: name, TakesMessages: block.Put != nil, Truncates: block.Truncate != nil,
		})
	}
	for name := range w.models {
		hello.Models = append(hello.Models, name)
	}
	for name := range w.embedders {
		hello.Embedders = append(hello.Embedders, name)
	}
	return hello
}

// welcome notes that the server has taken the worker.
func (w *Worker) welcome() { w.greet.Do(func() { close(w.attached) }) }

type callKey struct{}

// CurrentCall returns the call of the server that a worker's function runs for: session_id, block,
// job_id, traceparent. Nil: ctx is not that of such a function.
func CurrentCall(ctx context.Context) *memorydpb.WorkerCall {
	call, _ := ctx.Value(callKey{}).(*memorydpb.WorkerCall)
	return call
}

// String returns the worker's name and what it serves.
func (w *Worker) String() string {
	return fmt.Sprintf("worker %q: %d blocks, %d models, %d embedders",
		w.name, len(w.blocks), len(w.models), len(w.embedders))
}
