package memoryd

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// CustomBlock is long-term memory of your own, for sessions with a [WorkerBlock] of its name. memoryd
// stores the state, together with the fact that the messages were taken in. It repeats a failed Put
// with the state from before, so each message counts once. [StateBlock] makes one with a typed state.
type CustomBlock struct {
	// Put takes in messages that left short-term memory, oldest first, and returns the new state.
	// Nil keeps the old one, which is nil at first. A block without Put takes no messages.
	Put func(ctx context.Context, messages []*Message, state []byte) ([]byte, error)
	// Get returns the block's text for a context; nil: it has none. Messages are those in short-term
	// memory, then the input.
	Get func(ctx context.Context, messages []*Message, state []byte) (*memorydpb.WorkerContent, error)
	// Truncate returns the content shorter by at least so many tokens; nil drops it. The text of a
	// block without Truncate is dropped whole.
	Truncate func(
		ctx context.Context, content *memorydpb.WorkerContent, tokens int64,
	) (*memorydpb.WorkerContent, error)
}

// StateBlock returns a block whose state is a value that encoding/json keeps. It begins as the zero
// value. A block that takes no messages has no put.
func StateBlock[S any](
	put func(ctx context.Context, messages []*Message, state S) (S, error),
	get func(ctx context.Context, messages []*Message, state S) (string, error),
) CustomBlock {
	block := CustomBlock{
		Get: func(ctx context.Context, messages []*Message, stored []byte) (*memorydpb.WorkerContent, error) {
			state, err := stateOf[S](stored)
			if err != nil {
				return nil, err
			}
			text, err := get(ctx, messages, state)
			return ShownText(text), err
		},
	}
	if put == nil {
		return block
	}
	block.Put = func(ctx context.Context, messages []*Message, stored []byte) ([]byte, error) {
		state, err := stateOf[S](stored)
		if err != nil {
			return nil, err
		}
		if state, err = put(ctx, messages, state); err != nil {
			return nil, err
		}
		return json.Marshal(state)
	}
	return block
}

// ShownText returns the content of a block that shows a text; empty: it shows nothing.
func ShownText(text string) *memorydpb.WorkerContent {
	if text == "" {
		return &memorydpb.WorkerContent{}
	}
	return &memorydpb.WorkerContent{Parts: []*Part{TextPart(text)}}
}

func stateOf[S any](stored []byte) (state S, err error) {
	if len(stored) == 0 {
		return state, nil
	}
	if err := json.Unmarshal(stored, &state); err != nil {
		return state, fmt.Errorf("the state: %w", err)
	}
	return state, nil
}

// result runs the function that a call asks for.
func (w *Worker) result(
	ctx context.Context, call *memorydpb.WorkerCall,
) (*memorydpb.WorkerResult, error) {
	switch asked := call.GetCall().(type) {
	case *memorydpb.WorkerCall_Put:
		return w.put(ctx, w.blocks[call.GetBlock()], asked.Put)
	case *memorydpb.WorkerCall_Get:
		block := w.blocks[call.GetBlock()]
		if block.Get == nil {
			return nil, unserved("block", call.GetBlock())
		}
		return shown(block.Get(ctx, asked.Get.GetMessages(), asked.Get.GetState()))
	case *memorydpb.WorkerCall_Truncate:
		block := w.blocks[call.GetBlock()]
		if block.Truncate == nil {
			return nil, unserved("block", call.GetBlock())
		}
		return shown(block.Truncate(ctx, asked.Truncate.GetContent(), asked.Truncate.GetTokenCount()))
	case *memorydpb.WorkerCall_Complete:
		return w.complete(ctx, asked.Complete)
	case *memorydpb.WorkerCall_Embed:
		return w.embed(ctx, asked.Embed)
	}
	return nil, status.Error(codes.Unimplemented, "this version of the client does not know such calls")
}

func (w *Worker) put(
	ctx context.Context, block CustomBlock, put *memorydpb.BlockPut,
) (*memorydpb.WorkerResult, error) {
	if block.Put == nil {
		return nil, status.Error(codes.NotFound, "the block takes no messages")
	}
	state, err := block.Put(ctx, put.GetMessages(), put.GetState())
	if err != nil {
		return nil, err
	}
	return &memorydpb.WorkerResult{Result: &memorydpb.WorkerResult_Put{
		Put: &memorydpb.BlockPutResult{State: state},
	}}, nil
}

func shown(content *memorydpb.WorkerContent, err error) (*memorydpb.WorkerResult, error) {
	if err != nil {
		return nil, err
	}
	if content == nil {
		content = &memorydpb.WorkerContent{}
	}
	return &memorydpb.WorkerResult{Result: &memorydpb.WorkerResult_Content{Content: content}}, nil
}

func (w *Worker) complete(
	ctx context.Context, asked *memorydpb.ModelComplete,
) (*memorydpb.WorkerResult, error) {
	model := w.models[asked.GetModel()]
	if model == nil {
		return nil, unserved("model", asked.GetModel())
	}
	answer, err := model(ctx, asked.GetMessages(), asked.GetMaxTokenCount())
	if err != nil {
		return nil, err
	}
	if answer == nil {
		answer = &Answer{}
	}
	return &memorydpb.WorkerResult{
		Usage: answer.Usage.wire(),
		Result: &memorydpb.WorkerResult_Complete{Complete: &memorydpb.ModelCompleteResult{
			Text: answer.Text, FinishReason: answer.FinishReason,
		}},
	}, nil
}

func (w *Worker) embed(
	ctx context.Context, asked *memorydpb.ModelEmbed,
) (*memorydpb.WorkerResult, error) {
	embedder := w.embedders[asked.GetEmbedder()]
	if embedder == nil {
		return nil, unserved("embedder", asked.GetEmbedder())
	}
	answer, err := embedder(ctx, asked.GetTexts(), asked.GetPurpose())
	if err != nil {
		return nil, err
	}
	if answer == nil {
		answer = &Embeddings{}
	}
	made := &memorydpb.ModelEmbedResult{}
	for _, vector := range answer.Vectors {
		made.Vectors = append(made.Vectors, &memorydpb.EmbedVector{Values: vector})
	}
	return &memorydpb.WorkerResult{
		Usage:  answer.Usage.wire(),
		Result: &memorydpb.WorkerResult_Embed{Embed: made},
	}, nil
}

func (u CallUsage) wire() *memorydpb.WorkerUsage {
	return &memorydpb.WorkerUsage{
		Calls: max(u.Calls, 1), PromptTokenCount: u.PromptTokens,
		CompletionTokenCount: u.CompletionTokens,
	}
}

func unserved(kind, name string) error {
	return status.Errorf(codes.NotFound, "the worker serves no %s %q", kind, name)
}
