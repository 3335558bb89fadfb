// Command clientload loads a server through the Go client, for tests/benchmark/clients.py, and prints
// one line of JSON: the calls and the seconds that they took.
//
//	clientload -target HOST:PORT -method put|get -outstanding 32 -sessions 32 -seconds 5 -prefix p
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memoryd/memoryd/clients/go"
)

func main() {
	log.SetFlags(0)
	target := flag.String("target", "", "the server's address")
	method := flag.String("method", "put", "put or get")
	outstanding := flag.Int("outstanding", 32, "calls in flight")
	sessions := flag.Int("sessions", 32, "sessions the calls go over in turn")
	seconds := flag.Float64("seconds", 5, "how long")
	prefix := flag.String("prefix", "go", "sessions are PREFIX-NUMBER")
	bytes := flag.Int("message_bytes", 85, "text of a message")
	flag.Parse()
	client, err := memoryd.New(*target)
	if err != nil {
		log.Fatal(err)
	}
	text := strings.Repeat("tea ", *bytes/4+1)[:*bytes]
	call := func(number int64) error {
		session := client.Session(fmt.Sprintf("%s-%d", *prefix, number%int64(*sessions)))
		if *method == "get" {
			_, err := session.Get(context.Background())
			return err
		}
		_, err := session.Say(context.Background(), "user", text)
		return err
	}
	var next, done atomic.Int64
	if err := call(0); err != nil { // The connection.
		log.Fatal(err)
	}
	begin := time.Now()
	end := begin.Add(time.Duration(*seconds * float64(time.Second)))
	var calling sync.WaitGroup
	for range *outstanding {
		calling.Go(func() {
			for time.Now().Before(end) {
				if err := call(next.Add(1)); err != nil {
					log.Fatal(err)
				}
				done.Add(1)
			}
		})
	}
	calling.Wait()
	fmt.Printf("{\"calls\": %d, \"seconds\": %.3f}\n", done.Load(), time.Since(begin).Seconds())
}
