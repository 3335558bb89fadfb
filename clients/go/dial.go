package memoryd

import (
	"context"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// A reply may be as large as the server makes one; the server bounds requests.
	maxReplyBytes = 80 << 20
	// A connection whose packets are dropped is found after twice this time, within the default
	// timeout.
	keepaliveTime = 4 * time.Second
)

func (s *settings) dial() (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if s.tls != nil {
		transport = credentials.NewTLS(s.tls)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxReplyBytes), grpc.MaxCallSendMsgSize(maxReplyBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: 2 * time.Second,
			},
			MinConnectTimeout: keepaliveTime,
		}),
		// gRPC pings no sooner than after 10 s: a connection that something between acknowledges is
		// found after 14 s. It sets TCP_USER_TIMEOUT to Timeout, so what is sent and not acknowledged
		// ends the connection. The kernel's probes, of connect, find one that is lost while a call
		// waits for its answer.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 2 * keepaliveTime, Timeout: keepaliveTime,
		}),
		// Retries are made here, where a request id makes them safe.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithUserAgent("memoryd-go"),
	}
	if !s.proxy {
		options = append(options, grpc.WithNoProxy(), grpc.WithContextDialer(connect))
	}
	return grpc.NewClient(s.target, append(options, s.more...)...)
}

// connect opens a connection that the kernel probes after 4 s of silence.
func connect(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: keepaliveTime, Interval: time.Second, Count: 4,
	}}
	// As gRPC hands the targets unix:… on: "unix://" before an absolute path.
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		return dialer.DialContext(ctx, "unix", strings.TrimPrefix(path, "//"))
	}
	if strings.HasPrefix(address, "\x00") {
		return dialer.DialContext(ctx, "unix", "@"+address[1:])
	}
	return dialer.DialContext(ctx, "tcp", address)
}
