package memoryd

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Client is a connection to one memoryd, for any number of goroutines.
type Client struct {
	conn    grpc.ClientConnInterface
	close   func() error
	closed  atomic.Bool
	timeout time.Duration
	retries bool
	token   TokenSource
	// Between two attempts. Replaced by tests.
	sleep func(context.Context, time.Duration) error
}

// New returns a client of the server at target, a gRPC address such as `localhost:50051` or
// `unix:/run/memoryd.sock`. It connects when a call needs it, and again after a failure.
//
// An empty target is taken from the environment, as the command memoryd does: MEMORYD_TARGET, by
// default localhost:50051. The token is then that of the file MEMORYD_TOKEN_FILE, read at every
// attempt; MEMORYD_CA_FILE turns TLS on, with the certificate of MEMORYD_CLIENT_CERT_FILE and
// MEMORYD_CLIENT_KEY_FILE. Options come before the environment. A given target uses none of these.
func New(target string, options ...Option) (*Client, error) {
	settings, err := settingsOf(target, options)
	if err != nil {
		return nil, err
	}
	conn, err := settings.dial()
	if err != nil {
		return nil, err
	}
	return &Client{
		conn: conn, close: conn.Close, timeout: settings.timeout, retries: settings.retries,
		token: settings.token, sleep: sleep,
	}, nil
}

// Close closes the connection. Calls under way fail CANCELLED.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return c.close()
}

// Conn returns the connection, for generated clients of memorydpb. Its calls have neither the
// client's deadline nor its token, and are not repeated.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
