// Command formsdriver does what tests/client_conformance/forms.py asks of the forms: {"take": [message…]}
// answers the stored messages in base64, {"give": [stored…], "form": "openai" or "anthropic"} the
// messages. A JSON object a line, and one line of answer each.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go/forms"
	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

type command struct {
	Take []json.RawMessage
	Give [][]byte
	Form string
}

func main() {
	reader, writer := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var answer any
		if err == nil {
			answer, err = answerTo(line)
		}
		if err == nil {
			err = json.NewEncoder(writer).Encode(answer)
		}
		if err == nil {
			err = writer.Flush()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func answerTo(line []byte) (any, error) {
	var asked command
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	if asked.Take == nil {
		messages := make([]*memorydpb.Message, len(asked.Give))
		for at, given := range asked.Give {
			messages[at] = &memorydpb.Message{}
			if err := proto.Unmarshal(given, messages[at]); err != nil {
				return nil, err
			}
		}
		if asked.Form == "openai" {
			return forms.ToOpenAI(messages), nil
		}
		return forms.ToAnthropic(messages), nil
	}
	given := make([]any, len(asked.Take))
	for at, message := range asked.Take {
		given[at] = message
	}
	messages, err := forms.From(given...)
	if err != nil {
		return nil, err
	}
	stored := make([][]byte, len(messages))
	for at, message := range messages {
		if stored[at], err = proto.Marshal(message); err != nil {
			return nil, err
		}
	}
	return stored, nil
}
