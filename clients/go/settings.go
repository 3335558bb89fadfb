package memoryd

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
)

const defaultTimeout = 10 * time.Second

// TokenSource returns the bearer token of an attempt. It is called for every attempt, by the
// goroutine that makes the call, so that a token may be rotated.
type TokenSource func(ctx context.Context) (string, error)

// Option configures a [Client] or a [Worker].
type Option func(*settings)

type settings struct {
	target  string
	timeout time.Duration
	retries bool
	token   TokenSource
	tls     *tls.Config
	proxy   bool
	more    []grpc.DialOption
	// Of a worker.
	concurrency int
	logger      *slog.Logger
}

// WithTimeout sets the time of a call whose context has no deadline, repetitions included. A Put
// may take its wait longer. Default: 10 s. It is also the time within which a broken stream must go
// on.
func WithTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.timeout = timeout }
}

// WithTLS turns TLS on. Without it the connection is plain text, which memoryd by default serves on
// loopback and UNIX sockets only.
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.tls = config.Clone() }
}

// WithToken sends this bearer token with every call.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource sends the bearer token that source returns.
func WithTokenSource(source TokenSource) Option {
	return func(s *settings) { s.token = source }
}

// WithoutRetries makes a call that does not reach the server fail at once. Nothing is repeated.
func WithoutRetries() Option {
	return func(s *settings) { s.retries = false }
}

// WithProxy uses the proxy of the environment variables `https_proxy` and `no_proxy`. Without it no
// proxy is used: it would see tokens in plain text.
func WithProxy() Option {
	return func(s *settings) { s.proxy = true }
}

// WithDialOptions adds options of gRPC, such as grpc.WithStatsHandler(otelgrpc.NewClientHandler())
// for spans and the headers of W3C Trace Context. They replace the client's own.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.more = append(s.more, options...) }
}

func settingsOf(target string, options []Option) (*settings, error) {
	made := &settings{target: target, timeout: defaultTimeout, retries: true, concurrency: usualConcurrency}
	for _, option := range options {
		option(made)
	}
	if made.timeout <= 0 {
		return nil, fmt.Errorf("memoryd: the timeout must be above 0; got %v", made.timeout)
	}
	if target == "" {
		if err := made.readEnvironment(); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (s *settings) log() *slog.Logger {
	if s.logger == nil {
		return slog.Default()
	}
	return s.logger
}
