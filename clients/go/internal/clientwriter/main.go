// Command clientwriter puts what it reads by the Go client, for tests/clients/restarts.py. It reads
// and writes what tests/clients/client_writer.cc does.
//
//	clientwriter --target=HOST:PORT --timeout=SECONDS
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/memoryd/memoryd/clients/go"
)

func main() {
	log.SetFlags(0)
	target := flag.String("target", "", "the server's address")
	timeout := flag.Float64("timeout", 10, "the time of a call, in seconds")
	flag.Parse()
	client, err := memoryd.New(*target,
		memoryd.WithTimeout(time.Duration(*timeout*float64(time.Second))))
	if err != nil {
		log.Fatal(err)
	}
	items := map[string][][2]string{} // Session and text, by writer.
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), "\t", 3)
		items[fields[0]] = append(items[fields[0]], [2]string{fields[1], fields[2]})
	}
	var writing sync.WaitGroup
	var telling sync.Mutex
	for _, own := range items {
		writing.Go(func() {
			for _, item := range own {
				reply, err := client.Session(item[0]).Say(context.Background(), "user", item[1])
				if err != nil {
					log.Fatal(err)
				}
				replayed := 0
				if reply.GetReplayed() {
					replayed = 1
				}
				telling.Lock()
				fmt.Printf("%s\t%s\t%s\t%d\n", item[0], item[1], reply.GetMessageIds()[0], replayed)
				telling.Unlock()
			}
		})
	}
	writing.Wait()
}
