package memoryd_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go"
	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// fakeServer answers by the functions that a test sets, and keeps what it was asked.
type fakeServer struct {
	memorydpb.UnimplementedMemoryServiceServer
	memorydpb.UnimplementedSessionServiceServer
	memorydpb.UnimplementedJobServiceServer
	memorydpb.UnimplementedItemServiceServer
	memorydpb.UnimplementedWorkerServiceServer

	put    func(*memorydpb.PutRequest) (*memorydpb.PutResponse, error)
	get    func(context.Context) (*memorydpb.GetResponse, error)
	retry  func() (*memorydpb.RetryJobResponse, error)
	watch  func(*memorydpb.WatchSessionRequest, grpc.ServerStreamingServer[memorydpb.WatchSessionResponse]) error
	attach func(grpc.BidiStreamingServer[memorydpb.AttachRequest, memorydpb.AttachResponse]) error

	mu      sync.Mutex
	asked   []proto.Message
	tokens  []string
	imports []*memorydpb.ImportSessionRequest
}

func (s *fakeServer) note(ctx context.Context, request proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, request)
	given, _ := metadata.FromIncomingContext(ctx)
	s.tokens = append(s.tokens, given.Get("authorization")...)
}

// attempts is how often the server was asked.
func (s *fakeServer) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *fakeServer) Put(ctx context.Context, r *memorydpb.PutRequest) (*memorydpb.PutResponse, error) {
	s.note(ctx, r)
	return s.put(r)
}

func (s *fakeServer) Get(ctx context.Context, r *memorydpb.GetRequest) (*memorydpb.GetResponse, error) {
	s.note(ctx, r)
	return s.get(ctx)
}

func (s *fakeServer) RetryJob(ctx context.Context, r *memorydpb.RetryJobRequest) (*memorydpb.RetryJobResponse, error) {
	s.note(ctx, r)
	return s.retry()
}

func (s *fakeServer) WatchSession(
	r *memorydpb.WatchSessionRequest, stream grpc.ServerStreamingServer[memorydpb.WatchSessionResponse],
) error {
	s.note(stream.Context(), r)
	return s.watch(r, stream)
}

func (s *fakeServer) ImportSession(
	stream grpc.ClientStreamingServer[memorydpb.ImportSessionRequest, memorydpb.ImportSessionResponse],
) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.imports = append(s.imports, request)
		s.mu.Unlock()
		if request.GetEnd() != nil {
			return stream.SendAndClose(&memorydpb.ImportSessionResponse{
				Session: &memorydpb.Session{SessionId: "s", Revision: 1 << 60},
			})
		}
	}
}

func (s *fakeServer) PutBatch(ctx context.Context, r *memorydpb.PutBatchRequest) (*memorydpb.PutBatchResponse, error) {
	s.note(ctx, r)
	return &memorydpb.PutBatchResponse{}, nil
}

func (s *fakeServer) BatchItems(ctx context.Context, r *memorydpb.BatchItemsRequest) (*memorydpb.BatchItemsResponse, error) {
	s.note(ctx, r)
	reply := &memorydpb.BatchItemsResponse{}
	for range r.GetBatches() {
		reply.Outcomes = append(reply.Outcomes, &memorydpb.ItemBatchOutcome{})
	}
	return reply, nil
}

func (s *fakeServer) Attach(
	stream grpc.BidiStreamingServer[memorydpb.AttachRequest, memorydpb.AttachResponse],
) error {
	return s.attach(stream)
}

// serving runs the server in this process; options reach it.
func serving(t *testing.T, server *fakeServer) []memoryd.Option {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	serves := grpc.NewServer()
	memorydpb.RegisterMemoryServiceServer(serves, server)
	memorydpb.RegisterSessionServiceServer(serves, server)
	memorydpb.RegisterJobServiceServer(serves, server)
	memorydpb.RegisterItemServiceServer(serves, server)
	memorydpb.RegisterWorkerServiceServer(serves, server)
	go func() { _ = serves.Serve(listener) }()
	t.Cleanup(serves.Stop)
	return []memoryd.Option{memoryd.WithDialOptions(
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))}
}

// clientOf returns a client of a server in this process.
func clientOf(t *testing.T, server *fakeServer, options ...memoryd.Option) *memoryd.Client {
	t.Helper()
	client, err := memoryd.New("passthrough:///fake", append(serving(t, server), options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// refusal is an error as memoryd sends it.
func refusal(code codes.Code, reason string, details map[string]string) error {
	made, err := status.New(code, "refused").WithDetails(
		&errdetails.ErrorInfo{Reason: reason, Domain: "memoryd", Metadata: details})
	if err != nil {
		panic(err)
	}
	return made.Err()
}

// until waits for a moment of another goroutine.
func until(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("not within 10 s")
	}
}
