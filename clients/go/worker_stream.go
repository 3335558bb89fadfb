package memoryd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

const maxErrorBytes = 1000

// workerStream is one connection of a worker, from hello to its end.
type workerStream struct {
	worker *Worker
	stream grpc.BidiStreamingClient[memorydpb.AttachRequest, memorydpb.AttachResponse]
	// The most bytes of a message to the server. 0: it has not taken the worker yet.
	limit int64

	sending sync.Mutex // Held while a message is sent; gRPC takes one at a time.

	mu      sync.Mutex
	running map[int64]context.CancelFunc // By call_id. Guarded by mu.
}

func (s *workerStream) send(request *memorydpb.AttachRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.stream.Send(request)
}

// read takes what the server sends until the stream ends. The calls' contexts end with ctx.
func (s *workerStream) read(ctx context.Context) error {
	for {
		response, err := s.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch kind := response.GetKind().(type) {
		case *memorydpb.AttachResponse_Welcome:
			s.limit = kind.Welcome.GetMaxMessageBytes()
			s.worker.welcome()
		case *memorydpb.AttachResponse_Call:
			s.begin(ctx, kind.Call)
		case *memorydpb.AttachResponse_Cancel:
			s.mu.Lock()
			cancel := s.running[kind.Cancel.GetCallId()]
			s.mu.Unlock()
			if cancel != nil {
				cancel() // The call is answered when its function returns.
			}
		}
		// A drain: the server still sends what current work needs, then ends the stream.
	}
}

func (s *workerStream) begin(ctx context.Context, call *memorydpb.WorkerCall) {
	ctx = context.WithValue(ctx, callKey{}, call)
	ctx, cancel := context.WithTimeout(ctx, call.GetTimeout().AsDuration())
	s.mu.Lock()
	s.running[call.GetCallId()] = cancel
	s.mu.Unlock()
	s.worker.calls.Go(func() {
		defer func() {
			cancel()
			s.mu.Lock()
			delete(s.running, call.GetCallId())
			s.mu.Unlock()
		}()
		request := s.answer(ctx, call)
		if int64(proto.Size(request)) > s.limit {
			request = failed(call, status.Newf(codes.ResourceExhausted,
				"the answer is larger than %d bytes", s.limit))
		}
		_ = s.send(request) // The stream has ended if it fails.
	})
}

// answer runs the function of a call. Whatever comes of it, the server waits for an answer.
func (s *workerStream) answer(
	ctx context.Context, call *memorydpb.WorkerCall,
) (request *memorydpb.AttachRequest) {
	defer func() {
		if fault := recover(); fault != nil {
			s.worker.settings.log().Error("memoryd: a worker's function panicked",
				"worker", s.worker.name, "panic", fault, "stack", string(debug.Stack()))
			request = failed(call, status.New(codes.Unknown, fmt.Sprint("panic: ", fault)))
		}
	}()
	result, err := s.worker.result(ctx, call)
	if err != nil {
		if ctx.Err() == nil {
			s.worker.settings.log().Error("memoryd: a worker's function failed",
				"worker", s.worker.name, "error", err)
		}
		return failed(call, statusOf(err))
	}
	result.CallId = call.GetCallId()
	return &memorydpb.AttachRequest{Kind: &memorydpb.AttachRequest_Result{Result: result}}
}

// statusOf returns the code and message that an error becomes.
func statusOf(err error) *status.Status {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return status.FromContextError(err)
	}
	found, _ := status.FromError(err)
	return found
}

func failed(call *memorydpb.WorkerCall, why *status.Status) *memorydpb.AttachRequest {
	message := why.Message()
	if len(message) > maxErrorBytes {
		message = message[:maxErrorBytes]
	}
	return &memorydpb.AttachRequest{Kind: &memorydpb.AttachRequest_Result{
		Result: &memorydpb.WorkerResult{
			CallId: call.GetCallId(),
			Result: &memorydpb.WorkerResult_Error{Error: &memorydpb.WorkerError{
				Code: int32(why.Code()), Message: strings.ToValidUTF8(message, ""),
			}},
		},
	}}
}
