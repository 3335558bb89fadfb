package memoryd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is an error of memoryd, or of the connection to it.
type Error struct {
	// Code is the gRPC status code.
	Code codes.Code
	// Message says what was wrong and what to change.
	Message string
	// Reason is a constant in capitals, such as REVISION_MISMATCH. Empty: the error does not come
	// from memoryd, such as a lost connection or the caller's own deadline.
	Reason Reason
	// Field is the invalid field of the request, such as `messages[1].role`. Empty: none.
	Field string
	// Details has all values that the server sends with the error, such as current_revision.
	Details map[string]string
	// RetryAfter is in how long a refused call may come again, as for TENANT_RATE. 0: the server does
	// not say. The client waits for it where that is before the deadline.
	RetryAfter time.Duration

	status *status.Status
	// The context's error, where that ended the call.
	cause error
}

// Error returns code, reason and message.
func (e *Error) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("memoryd: %v: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("memoryd: %v (%s): %s", e.Code, string(e.Reason), e.Message)
}

// Is reports whether target is the error's [Reason], or an *Error of the same code and reason.
func (e *Error) Is(target error) bool {
	switch other := target.(type) {
	case Reason:
		return other != "" && e.Reason == other
	case *Error:
		return other.Code == e.Code && other.Reason == e.Reason
	}
	return false
}

// Unwrap returns context.Canceled or context.DeadlineExceeded, if that ended the call.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus returns the status, for google.golang.org/grpc/status.
func (e *Error) GRPCStatus() *status.Status {
	if e.status == nil {
		return status.New(e.Code, e.Message)
	}
	return e.status
}

// MayHaveBeenDone reports whether a call that changes something, and failed with err, may have done
// so all the same: its outcome is unknown. False: nothing was done.
func MayHaveBeenDone(err error) bool {
	found := asError(err)
	if found == nil {
		return false
	}
	switch found.Code {
	case codes.DeadlineExceeded:
		return found.Reason == "" // With a reason it is the server's, which has not begun.
	case codes.Canceled, codes.Internal, codes.Unavailable, codes.Unknown:
		return found.Reason != ErrStoreUnavailable && found.Reason != ErrDraining
	}
	return false
}

// errorOf returns the *Error of a failed attempt. A deadline or an end of ctx is its cause.
func errorOf(ctx context.Context, err error) *Error {
	if made := asError(err); made != nil {
		return made
	}
	// Also of a ctx that has ended by itself.
	found := status.Convert(err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		found = status.FromContextError(err)
	}
	made := &Error{Code: found.Code(), Message: found.Message(), status: found}
	for _, detail := range found.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			made.explain(detail.GetReason(), detail.GetMetadata())
		case *errdetails.RetryInfo:
			made.RetryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	switch {
	case made.Reason != "":
	case made.Code == codes.DeadlineExceeded:
		made.cause = context.DeadlineExceeded
	case made.Code == codes.Canceled && ctx.Err() != nil:
		made.cause = context.Canceled
	}
	return made
}

// explain takes what the server says beside the message.
func (e *Error) explain(reason string, details map[string]string) {
	e.Reason, e.Details, e.Field = Reason(reason), details, details["field"]
	if told, err := strconv.ParseInt(details["retry_after_ms"], 10, 64); err == nil {
		e.RetryAfter = time.Duration(told) * time.Millisecond
	}
}

// asError returns the *Error that err is or wraps; nil: none.
func asError(err error) *Error {
	var found *Error
	errors.As(err, &found)
	return found
}

// invalid returns the error of an argument that the client itself refuses.
func invalid(field, format string, arguments ...any) error {
	return &Error{
		Code: codes.InvalidArgument, Reason: ErrInvalidField, Field: field,
		Message: field + ": " + fmt.Sprintf(format, arguments...),
	}
}
