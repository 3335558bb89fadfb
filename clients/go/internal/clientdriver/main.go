// Command clientdriver is the driver of the Go client in tests/client_conformance, whose run.py says
// what it reads and writes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/memoryd/memoryd/clients/go"
)

type command struct {
	Open *struct {
		Target       string
		Timeout      float64
		WaitForReady bool `json:"wait_for_ready"`
		Tokens       []string
	}
	Close bool
	call
}

// call is one call, as a caller of the client would make it.
type call struct {
	Call        string
	Request     json.RawMessage
	Requests    []json.RawMessage
	Timeout     float64
	CancelAfter float64 `json:"cancel_after"`
	Take        int
}

func main() {
	log.SetFlags(0)
	var client *memoryd.Client
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<27)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var given command
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			log.Fatal(err)
		}
		answer := any(struct{}{})
		switch {
		case given.Open != nil:
			client = open(given)
		case given.Close:
			if err := client.Close(); err != nil {
				log.Fatal(err)
			}
		default:
			answer = answerTo(client, given.call)
		}
		if err := answers.Encode(answer); err != nil {
			log.Fatal(err)
		}
	}
}

func open(given command) *memoryd.Client {
	options := []memoryd.Option{memoryd.WithTimeout(seconds(given.Open.Timeout))}
	if !given.Open.WaitForReady {
		options = append(options, memoryd.WithoutRetries())
	}
	if tokens := given.Open.Tokens; len(tokens) > 0 {
		var attempts atomic.Int64
		options = append(options, memoryd.WithTokenSource(func(context.Context) (string, error) {
			return tokens[min(int(attempts.Add(1)), len(tokens))-1], nil
		}))
	}
	client, err := memoryd.New(given.Open.Target, options...)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func answerTo(client *memoryd.Client, given call) any {
	method := methods[given.Call]
	if method == nil {
		return map[string]bool{"unsupported": true}
	}
	ctx := context.Background()
	if given.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, seconds(given.Timeout))
		defer cancel()
	}
	if given.CancelAfter > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		time.AfterFunc(seconds(given.CancelAfter), cancel)
	}
	result, err := method(ctx, client, given)
	if err != nil {
		return map[string]any{"error": failure(err)}
	}
	return map[string]any{"ok": result}
}

func failure(err error) map[string]any {
	found, ok := err.(*memoryd.Error)
	if !ok {
		log.Fatalf("no *memoryd.Error: %v", err)
	}
	return map[string]any{
		"code": nameOf(found.Code), "reason": string(found.Reason), "field": found.Field,
		"message": found.Message, "details": found.Details,
		"may_have_been_done": memoryd.MayHaveBeenDone(err),
	}
}

// nameOf returns the code as gRPC's other libraries write it.
func nameOf(code codes.Code) string {
	if code == codes.Canceled {
		return "CANCELLED"
	}
	return strings.ToUpper(wordEnd.ReplaceAllString(code.String(), "${1}_${2}"))
}

var wordEnd = regexp.MustCompile("([a-z])([A-Z])")

func seconds(given float64) time.Duration { return time.Duration(given * float64(time.Second)) }
