package memoryd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
	// The server waits no longer for jobs.
	longestWait = 30 * time.Second
)

// call says how a request is sent.
type call struct {
	method string
	// How long the server may wait; it comes to the client's own timeout.
	wait time.Duration
	// Whether a second one would have an effect of its own.
	once bool
}

// message is a pointer to a generated message R.
type message[R any] interface {
	*R
	proto.Message
}

// invoke sends the request until it is answered or its time is over.
func invoke[R any, M message[R]](ctx context.Context, c *Client, request proto.Message, how call) (M, error) {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout+how.wait)
		defer cancel()
	}
	end, _ := ctx.Deadline()
	attempts := c.attempts(end, !how.once)
	for {
		reply := M(new(R))
		err := c.attempt(ctx, how.method, request, reply, attempts.waits)
		if err == nil {
			return reply, nil
		}
		if err := attempts.pause(ctx, err); err != nil {
			return nil, err
		}
	}
}

func (c *Client) attempt(ctx context.Context, method string, request, reply proto.Message, waits bool) error {
	ctx, err := c.authorized(ctx)
	if err != nil {
		return err
	}
	return c.conn.Invoke(ctx, method, request, reply, grpc.WaitForReady(waits))
}

// authorized returns ctx with the token of an attempt.
func (c *Client) authorized(ctx context.Context) (context.Context, error) {
	return withToken(ctx, c.token)
}

func withToken(ctx context.Context, source TokenSource) (context.Context, error) {
	if source == nil {
		return ctx, nil
	}
	token, err := source(ctx)
	if err != nil {
		return nil, &tokenError{err}
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), nil
}

// tokenError is what a TokenSource failed with. It is returned as it is: no attempt was made.
type tokenError struct{ error }

// attempts are those of one call: whether to make another one, and when.
type attempts struct {
	client *Client
	end    time.Time
	// The next pause, of which each client takes half to one and a half.
	next       time.Duration
	repeatable bool
	// Whether gRPC waits for a connection. The first attempt finds out what is wrong, but for a call
	// that is sent once.
	waits bool
	// The last error after which the call may have been done.
	unknown error
}

func (c *Client) attempts(end time.Time, repeatable bool) *attempts {
	return &attempts{
		client: c, end: end, next: firstPause,
		repeatable: repeatable, waits: c.retries && !repeatable,
	}
}

// pause waits before the next attempt after one that failed. It returns the call's error when there
// must be none.
func (a *attempts) pause(ctx context.Context, failed error) error {
	var ofToken *tokenError
	if errors.As(failed, &ofToken) {
		return ofToken.error
	}
	err := errorOf(ctx, failed)
	pause, again := a.plan(err)
	if ctx.Err() != nil || !again || !time.Now().Add(pause).Before(a.end) {
		return a.last(ctx, err)
	}
	if MayHaveBeenDone(err) {
		a.unknown = err
	}
	if ended := a.client.sleep(ctx, pause); ended != nil {
		return a.last(ctx, errorOf(ctx, ended))
	}
	a.waits = true
	return nil
}

// plan returns when the call may come again, and whether it may. A refused one that is told when
// comes again then, also if it is sent once: nothing was started.
func (a *attempts) plan(err *Error) (time.Duration, bool) {
	if a.client.closed.Load() || !a.client.retries {
		return 0, false
	}
	if err.Code == codes.ResourceExhausted && err.RetryAfter > 0 {
		return time.Duration(float64(err.RetryAfter) * (1 + mathrand.Float64()/4)), true
	}
	pause := time.Duration(float64(a.next) * (0.5 + mathrand.Float64()))
	a.next = min(2*a.next, longestPause)
	return pause, a.repeatable && (err.Code == codes.Unavailable || err.Code == codes.Canceled)
}

// last returns the error of a call whose last attempt failed with err. What that came to says
// nothing of an earlier one, unless it is an answer.
func (a *attempts) last(ctx context.Context, err *Error) error {
	if a.unknown == nil || isAnswer(err.Code) {
		return err
	}
	found := *asError(a.unknown)
	// The end of the caller's time is what ended the call all the same.
	found.cause = ctx.Err()
	return &found
}

// isAnswer reports whether an attempt that ended so was looked at, together with earlier ones of its
// request id. Others were refused before that, or have no answer.
func isAnswer(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.PermissionDenied,
		codes.ResourceExhausted, codes.Unauthenticated:
		return false
	}
	return true
}

// newRequestID returns the id under which a change is done once, however often it is sent.
func newRequestID() string {
	var id [16]byte
	rand.Read(id[:]) // Never fails.
	return hex.EncodeToString(id[:])
}

// once sets the request id of a change that has none.
func once(id **string) {
	if *id == nil {
		*id = proto.String(newRequestID())
	}
}
