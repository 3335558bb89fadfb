package memoryd

import (
	"time"

	"google.golang.org/protobuf/proto"
)

// BlockOptions are what every kind of block takes. A name is unique within the session, 1 to 64
// bytes of `[A-Za-z0-9_-]`; each kind has one by default.
type BlockOptions struct {
	Name string `json:"-"`
	// 0: never cut. A Get over the token limit cuts the other blocks, the highest number first.
	Priority int32 `json:"-"`
	// The block's section: a text with `{content}` once, and `{name}`.
	Template string `json:"template,omitempty"`
	// The block is not fed the messages that leave short-term memory. Not of static blocks.
	NotFed bool `json:"-"`
}

// StaticBlock always shows its content.
type StaticBlock struct {
	BlockOptions
	Content []*Part `json:"-"`
}

// FactsBlock keeps facts that a chat model finds in the messages, with evidence, times and trust.
// Fields that are zero have the server's default.
type FactsBlock struct {
	BlockOptions
	// The chat model: its name in the server's settings, or of Worker.
	Model  string `json:"model"`
	Worker string `json:"-"`
	// A second call condenses more facts than that.
	MaxFacts int64 `json:"max_facts,omitempty"`
	// Texts to begin with, and how far they are trusted.
	Facts      []string `json:"facts,omitempty"`
	FactsTrust *float64 `json:"facts_trust,omitempty"`
	// After this time a fact is retired that no answer has repeated.
	TTL time.Duration `json:"-"`
	// The cosine from which a new fact equals a known one, in a session with an embedder.
	SameFactSimilarity float64 `json:"same_fact_similarity,omitempty"`
	ExtractionPrompt   string  `json:"extraction_prompt,omitempty"`
	CondensePrompt     string  `json:"condense_prompt,omitempty"`
}

// VectorBlock shows earlier texts that resemble the current messages.
type VectorBlock struct {
	BlockOptions
	// The embedder: its name in the server's settings, or of Worker.
	Embedder string `json:"embedder"`
	Worker   string `json:"-"`
	// The most texts to find.
	TopK int64 `json:"top_k,omitempty"`
	// How many of the last messages form the query.
	RetrievalContextWindow *int64 `json:"retrieval_context_window,omitempty"`
	// The least cosine.
	SimilarityThreshold *float64 `json:"similarity_threshold,omitempty"`
	// Values that the metadata must contain.
	Filter         map[string]any `json:"filter,omitempty"`
	FormatTemplate string         `json:"format_template,omitempty"`
	// After this time a text is no longer found.
	TTL time.Duration `json:"-"`
}

// SummaryBlock is a summary that a chat model rewrites from the old one and the new messages.
type SummaryBlock struct {
	BlockOptions
	Model     string `json:"model"`
	Worker    string `json:"-"`
	MaxTokens int64  `json:"max_tokens,omitempty"`
	Prompt    string `json:"prompt,omitempty"`
}

// EntitiesBlock keeps a line about each person, place or thing, which a chat model writes.
type EntitiesBlock struct {
	BlockOptions
	Model                  string `json:"model"`
	Worker                 string `json:"-"`
	MaxEntities            int64  `json:"max_entities,omitempty"`
	TopK                   int64  `json:"top_k,omitempty"`
	RetrievalContextWindow int64  `json:"retrieval_context_window,omitempty"`
	Prompt                 string `json:"prompt,omitempty"`
}

// SessionBlock shows the knowledge of another session of the tenant, such as the user's, and hands
// the messages on to it.
type SessionBlock struct {
	BlockOptions
	SessionID string `json:"session_id"`
}

// WorkerBlock is a custom block, which the worker of this name serves under the block's name. The
// worker gets Options, a JSON object, with every call.
type WorkerBlock struct {
	BlockOptions
	Worker  string
	Options map[string]any
}

// Block returns the block for SessionConfig.Blocks.
func (b StaticBlock) Block() *Block {
	made := b.block("static", "static", "", b)
	made.Content = b.Content
	return made
}

// Block returns the block for SessionConfig.Blocks.
func (b FactsBlock) Block() *Block {
	return b.block("fact-extraction", "facts", b.Worker, struct {
		FactsBlock
		TTL int64 `json:"ttl,omitempty"`
		fed
	}{b, seconds(b.TTL), b.fed()})
}

// Block returns the block for SessionConfig.Blocks.
func (b VectorBlock) Block() *Block {
	return b.block("vector", "vector", b.Worker, struct {
		VectorBlock
		TTL int64 `json:"ttl,omitempty"`
		fed
	}{b, seconds(b.TTL), b.fed()})
}

// Block returns the block for SessionConfig.Blocks.
func (b SummaryBlock) Block() *Block {
	return b.block("summary", "summary", b.Worker, struct {
		SummaryBlock
		fed
	}{b, b.fed()})
}

// Block returns the block for SessionConfig.Blocks.
func (b EntitiesBlock) Block() *Block {
	return b.block("entity", "entities", b.Worker, struct {
		EntitiesBlock
		fed
	}{b, b.fed()})
}

// Block returns the block for SessionConfig.Blocks.
func (b SessionBlock) Block() *Block {
	return b.block("session", "session", "", struct {
		SessionBlock
		fed
	}{b, b.fed()})
}

// Block returns the block for SessionConfig.Blocks.
func (b WorkerBlock) Block() *Block {
	if b.Options == nil {
		return b.block("worker", "", b.Worker, struct{}{})
	}
	return b.block("worker", "", b.Worker, b.Options)
}

type fed struct {
	Accepts *bool `json:"accept_short_term_memory,omitempty"`
}

func (o BlockOptions) fed() fed {
	if !o.NotFed {
		return fed{}
	}
	return fed{proto.Bool(false)}
}

// block returns a block with options in JSON. What JSON does not have, such as NaN, the server
// refuses.
func (o BlockOptions) block(kind, usual, worker string, options any) *Block {
	made := &Block{Kind: kind, Name: o.Name, Worker: worker}
	if made.Name == "" {
		made.Name = usual
	}
	if o.Priority != 0 {
		made.Priority = &o.Priority
	}
	text, err := jsonOf(options)
	switch {
	case err != nil:
		made.OptionsJson = err.Error()
	case text != "{}":
		made.OptionsJson = text
	}
	return made
}

// seconds rounds up to whole seconds, which the server takes.
func seconds(given time.Duration) int64 { return int64((given + time.Second - 1) / time.Second) }
