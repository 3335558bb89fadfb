package memoryd_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/memoryd/memoryd/clients/go"
)

// blocksOfReadme are the README's blocks of Go.
func blocksOfReadme(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, found := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(found[1]))
	}
	return blocks
}

func TestTheReadmeShowsTheExamples(t *testing.T) {
	text, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	// The examples are indented once more.
	examples := strings.ReplaceAll(string(text), "\n\t", "\n")
	for _, block := range blocksOfReadme(t)[1:] {
		if !strings.Contains(examples, block) {
			t.Errorf("not in example_test.go:\n%s", block)
		}
	}
}

func TestTheExamplesRun(t *testing.T) {
	ctx, client := t.Context(), newServer(t).client(t)
	for _, example := range []func(context.Context, *memoryd.Client) error{
		exampleOfMessages, exampleOfForms, exampleOfUsers, exampleOfBlocks, exampleOfItems,
	} {
		if err := example(ctx, client); err != nil {
			t.Error(err)
		}
	}
	// Nobody is at the usual port, or somebody who takes the worker.
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := exampleOfWorkers(short); err != nil {
		t.Error(err)
	}
	secured, err := exampleOfTLS(nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = secured.Close()
}

func TestTheReadmesProgramRunsInAnEmptyFolder(t *testing.T) {
	server, folder := newServer(t), t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	program := strings.ReplaceAll(blocksOfReadme(t)[0], "localhost:50051", server.target)
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	typed := string(regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(text)[1])
	shell := exec.CommandContext(t.Context(), "sh", "-ec",
		strings.ReplaceAll(typed, "/path/to/memoryd/clients/go", here))
	shell.Dir = folder
	output, err := shell.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(output), "user Hello, world!\n") {
		t.Errorf("%v:\n%s", err, output)
	}
}
