package memoryd

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

const (
	// Of one request of an upload; a larger item goes alone.
	uploadedItems = 250
	uploadedBytes = 512 << 10
)

// streamed iterates over the replies of a stream. One that breaks is continued: after makes the
// request that of the rest, and says whether a reply is the last one. Without a deadline in ctx the
// stream has none; after a break it must go on within the client's timeout.
func streamed[R any, Q proto.Message, M message[R]](
	ctx context.Context, c *Client, method string, request Q, after func(Q, M) bool,
) iter.Seq2[M, error] {
	return func(yield func(M, error) bool) {
		rest := proto.Clone(request).(Q)
		var attempts *attempts // Since the stream broke; nil while it is read.
		for {
			ended, err := read(ctx, c, method, rest, func(reply M) bool {
				attempts = nil
				last := after(rest, reply)
				return yield(reply, nil) && !last
			})
			if ended {
				return
			}
			if attempts == nil {
				attempts = c.attempts(time.Now().Add(c.timeout), true)
			}
			if err := attempts.pause(ctx, err); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// read reads one stream until each says that it wants no more, or the stream ends or breaks.
func read[R any, M message[R]](
	ctx context.Context, c *Client, method string, request proto.Message, each func(M) bool,
) (ended bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if ctx, err = c.authorized(ctx); err != nil {
		return false, err
	}
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return false, err
	}
	// After io.EOF RecvMsg has the error.
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if err := stream.CloseSend(); err != nil {
		return false, err
	}
	for {
		reply := M(new(R))
		switch err := stream.RecvMsg(reply); {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return false, err
		case !each(reply):
			return true, nil
		}
	}
}

// upload sends a call of many requests, once. Without a deadline in ctx it has none. An error of
// requests ends the call, of which nothing is made then, and is returned.
func upload[R any, M message[R]](
	ctx context.Context, c *Client, method string, requests iter.Seq2[proto.Message, error],
) (M, error) {
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	streaming, err := c.authorized(streaming)
	if err != nil {
		var ofToken *tokenError
		errors.As(err, &ofToken)
		return nil, ofToken.error
	}
	stream, err := c.conn.NewStream(streaming, &grpc.StreamDesc{ClientStreams: true}, method)
	if err != nil {
		return nil, errorOf(ctx, err)
	}
	for request, err := range requests {
		if err != nil {
			return nil, err
		}
		if err := stream.SendMsg(request); errors.Is(err, io.EOF) {
			break // The server has answered; RecvMsg has the error.
		} else if err != nil {
			return nil, errorOf(ctx, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, errorOf(ctx, err)
	}
	reply := M(new(R))
	if err := stream.RecvMsg(reply); err != nil {
		return nil, errorOf(ctx, err)
	}
	return reply, nil
}

// paged iterates over the items of all pages. next has the request ask for the page after the token.
// Without a deadline in ctx the client's timeout is that of each page.
func paged[R any, I any, Q proto.Message, M message[R]](
	ctx context.Context, c *Client, first Q, method string,
	items func(M) []I, token func(M) string, next func(Q, string),
) iter.Seq2[I, error] {
	return func(yield func(I, error) bool) {
		var none I
		request := proto.Clone(first).(Q)
		for {
			page, err := invoke[R, M](ctx, c, request, call{method: method})
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range items(page) {
				if !yield(item, nil) {
					return
				}
			}
			if token(page) == "" {
				return
			}
			next(request, token(page))
		}
	}
}

// Collect returns all items of an iterator, or its error.
func Collect[I any](items iter.Seq2[I, error]) ([]I, error) {
	var all []I
	for item, err := range items {
		if err != nil {
			return all, err
		}
		all = append(all, item)
	}
	return all, nil
}
