package memoryd_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/memoryd/memoryd/clients/go"
	"github.com/memoryd/memoryd/clients/go/forms"
)

// What README.md shows. readme_test.go compares the two, and runs them.

func exampleOfMessages(ctx context.Context, client *memoryd.Client) error {
	session := client.Session("numbers")
	_, err := session.Put(ctx, []*memoryd.Message{
		memoryd.Text("user", "What is 6 x 7?"),
		memoryd.Parts("assistant", memoryd.ToolCallPart("call_1", "multiply", `{"a": 6, "b": 7}`)),
		memoryd.Parts("tool", memoryd.ToolResultPart("call_1", "multiply", "42")),
	}, memoryd.WithContents(memoryd.TextContent("Likes numbers.")))
	if err != nil {
		return err
	}
	for message, err := range session.All(ctx, memoryd.NewestFirst()) {
		if err != nil {
			return err
		}
		fmt.Println(message.GetPosition(), message.GetRole(), memoryd.TextOf(message))
	}
	found, err := session.Query(ctx, "numbers", memoryd.TopK(3))
	if err != nil {
		return err
	}
	for _, hit := range found.GetResults() {
		fmt.Println(hit.GetScore(), memoryd.TextOfHit(hit))
	}
	return nil
}

func exampleOfForms(ctx context.Context, client *memoryd.Client) error {
	session := client.Session("chat")
	messages, err := forms.From(
		map[string]string{"role": "system", "content": "Be brief."},
		json.RawMessage(`{"role": "user", "content": "What is 6 x 7?"}`),
	)
	if err != nil {
		return err
	}
	if _, err := session.Put(ctx, messages); err != nil {
		return err
	}
	reply, err := session.Get(ctx)
	if err != nil {
		return err
	}
	request := forms.ToAnthropic(reply.GetMessages())
	fmt.Println(string(request.System), len(request.Messages))
	return nil
}

func exampleOfUsers(ctx context.Context, client *memoryd.Client) error {
	ann := client.User("ann")
	if _, err := ann.RememberText(ctx, "I drink tea, never coffee."); err != nil {
		return err
	}
	known, err := ann.Recall(ctx, "What may I offer to drink?")
	if err != nil {
		return err
	}
	for _, hit := range known.GetResults() {
		fmt.Println(memoryd.SaidAt(hit).Format(time.DateOnly), memoryd.TextOfHit(hit))
	}
	turn := []*memoryd.Message{memoryd.Text("user", "A drink, tea or coffee?")}
	made, err := ann.Context(ctx, "sunday", turn)
	if err != nil {
		return err
	}
	fmt.Println(len(made.GetMessages()), "messages for the model,", len(made.Recalled), "recalled")
	return nil
}

func exampleOfBlocks(ctx context.Context, client *memoryd.Client) error {
	_, err := client.Session("french").Create(ctx, &memoryd.SessionConfig{
		TokenLimit: new(int64(8000)),
		Blocks: []*memoryd.Block{
			memoryd.StaticBlock{Content: []*memoryd.Part{memoryd.TextPart("Answer in French.")}}.Block(),
			memoryd.SummaryBlock{Model: "shout", Worker: "my-worker", MaxTokens: 300}.Block(),
			memoryd.WorkerBlock{
				BlockOptions: memoryd.BlockOptions{Name: "mentions", Priority: 1}, Worker: "my-worker",
			}.Block(),
		},
	})
	if errors.Is(err, memoryd.ErrSessionExists) {
		fmt.Println("It is there.")
	} else if err != nil {
		return err
	}
	return nil
}

func exampleOfItems(ctx context.Context, client *memoryd.Client) error {
	ada := client.Namespace("users", "ada")
	written, err := ada.Put(ctx, "diet", map[string]string{"drinks": "tea"}, memoryd.TTL(24*time.Hour))
	if err != nil {
		return err
	}
	_, err = ada.Put(ctx, "diet", map[string]string{"drinks": "coffee"}, memoryd.IfVersion(written.GetVersion()))
	if errors.Is(err, memoryd.ErrVersionMismatch) {
		fmt.Println("Another writer was faster.")
	} else if err != nil {
		return err
	}
	item, err := ada.Get(ctx, "diet")
	if err != nil {
		return err
	}
	var diet struct{ Drinks string }
	if err := memoryd.DecodeItem(item, &diet); err != nil {
		return err
	}
	fmt.Println(diet.Drinks)
	return nil
}

func exampleOfWorkers(ctx context.Context) error {
	worker, err := memoryd.NewWorker("localhost:50051", "my-worker")
	if err != nil {
		return err
	}
	worker.Block("mentions", memoryd.StateBlock(
		// What left short-term memory, once each.
		func(ctx context.Context, messages []*memoryd.Message, count int) (int, error) {
			for _, message := range messages {
				count += strings.Count(memoryd.TextOf(message), "Logan")
			}
			return count, nil
		},
		func(ctx context.Context, messages []*memoryd.Message, count int) (string, error) {
			return fmt.Sprintf("Logan was mentioned %d times.", count), nil
		}))
	worker.Model("shout", func(
		ctx context.Context, messages []*memoryd.Message, maxTokens int64,
	) (*memoryd.Answer, error) {
		text := strings.ToUpper(memoryd.TextOf(messages[len(messages)-1]))
		return &memoryd.Answer{Text: text, FinishReason: "stop"}, nil
	})
	return worker.Run(ctx)
}

func exampleOfTLS(roots *x509.CertPool) (*memoryd.Client, error) {
	client, err := memoryd.New("memory.example.org:50051",
		memoryd.WithTLS(&tls.Config{RootCAs: roots}),
		memoryd.WithTokenSource(func(context.Context) (string, error) {
			token, err := os.ReadFile("/run/secrets/token")
			return strings.TrimSpace(string(token)), err
		}))
	return client, err
}
