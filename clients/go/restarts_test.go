package memoryd_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memoryd/memoryd/clients/go"
)

const (
	writers  = 8
	puts     = 600
	restarts = 4
)

// Writers put one message after the other with nothing but the client's own retries, while the server
// is ended by SIGKILL and SIGTERM in turn and started again. tests/clients/restarts.py is the long form,
// on both stores.
func TestRestartsLoseAndDoubleNothing(t *testing.T) {
	server := newServer(t)
	client := server.client(t, memoryd.WithTimeout(2*time.Minute))
	var replayed, acknowledged int
	ids := map[string]string{}
	var mu sync.Mutex
	done := make(chan struct{}, puts)
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for number := writer; number < puts; number += writers {
				text := fmt.Sprintf("%d/%d", writer, number)
				session := client.Session(fmt.Sprint("session-", number%5))
				reply, err := session.Say(t.Context(), "user", text)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged++
				ids[text] = reply.GetMessageIds()[0]
				if reply.GetReplayed() {
					replayed++
				}
				mu.Unlock()
				done <- struct{}{}
			}
		})
	}
	for restart := range restarts {
		for range puts / (restarts + 1) {
			<-done
		}
		signal := syscall.SIGKILL
		if restart%2 == 1 {
			signal = syscall.SIGTERM
		}
		server.end(t, signal)
		server.start(t)
	}
	writing.Wait()
	stored := map[string]int{}
	for number := range 5 {
		for message, err := range client.Session(fmt.Sprint("session-", number)).Stream(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			stored[message.GetText()]++
			if ids[message.GetText()] != message.GetMessageId() {
				t.Errorf("%q has another id than its Put was answered with", message.GetText())
			}
		}
	}
	lost, doubled := 0, 0
	for text := range ids {
		if stored[text] == 0 {
			lost++
		}
		doubled += max(0, stored[text]-1)
	}
	t.Logf("acked %d, replayed %d, lost %d, doubled %d", acknowledged, replayed, lost, doubled)
	if lost != 0 || doubled != 0 || acknowledged != puts || len(stored) != puts {
		t.Errorf("%d stored", len(stored))
	}
}
