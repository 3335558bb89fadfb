package main

import (
	"context"
	"encoding/json"
	"iter"
	"log"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go"
	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

type method func(ctx context.Context, client *memoryd.Client, given call) (any, error)

// message is a pointer to a generated message R.
type message[R any] interface {
	*R
	proto.Message
}

// parsed has the request of the call made by f.
func parsed[R any, M message[R]](f func(context.Context, *memoryd.Client, M) (any, error)) method {
	return func(ctx context.Context, client *memoryd.Client, given call) (any, error) {
		return f(ctx, client, read[R, M](given.Request))
	}
}

func read[R any, M message[R]](text []byte) M {
	made := M(new(R))
	if err := protojson.Unmarshal(text, made); err != nil {
		log.Fatalf("%v: %s", err, text)
	}
	return made
}

// told is a reply in JSON; null for one that is nil.
func told[R any, M message[R]](reply M, err error) (any, error) {
	if err != nil || reply == nil {
		return nil, err
	}
	return written(reply), nil
}

func written(reply proto.Message) json.RawMessage {
	text, err := protojson.Marshal(reply)
	if err != nil {
		log.Fatal(err)
	}
	return text
}

// taken are the first of the items, all for 0.
func taken[M proto.Message](items iter.Seq2[M, error], most int) (any, error) {
	found := []json.RawMessage{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		if found = append(found, written(item)); len(found) == most {
			break
		}
	}
	return found, nil
}

// changes are the options of a change that its request says.
func changes(request interface{ GetRequestId() string }) []memoryd.ChangeOption {
	if id := request.GetRequestId(); id != "" {
		return []memoryd.ChangeOption{memoryd.RequestID(id)}
	}
	return nil
}

var methods = map[string]method{
	"Put": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.PutRequest) (any, error) {
		var options []memoryd.PutOption
		if r.RequestId != nil {
			options = append(options, memoryd.RequestID(r.GetRequestId()))
		}
		if r.ExpectedRevision != nil {
			options = append(options, memoryd.IfRevision(r.GetExpectedRevision()))
		}
		if r.Wait != nil {
			options = append(options, memoryd.Wait(r.GetWait().AsDuration()))
		}
		return told(c.Session(r.GetSessionId()).Put(ctx, r.GetMessages(), options...))
	}),
	"Get": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.GetRequest) (any, error) {
		var options []memoryd.GetOption
		if r.Input != nil {
			options = append(options, memoryd.Input(r.GetInput()))
		}
		return told(c.Session(r.GetSessionId()).Get(ctx, options...))
	}),
	"AllMessages": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.GetAllRequest) (any, error) {
		return taken(c.Session(r.GetSessionId()).All(ctx, memoryd.PageSize(r.GetPageSize())), 0)
	}),
	"StreamAll": func(ctx context.Context, c *memoryd.Client, given call) (any, error) {
		r := read[memorydpb.StreamAllRequest](given.Request)
		return taken(c.Session(r.GetSessionId()).Stream(ctx), given.Take)
	},
	"WatchSession": func(ctx context.Context, c *memoryd.Client, given call) (any, error) {
		r := read[memorydpb.WatchSessionRequest](given.Request)
		var options []memoryd.WatchOption
		if r.AfterRevision != nil {
			options = append(options, memoryd.AfterRevision(r.GetAfterRevision()))
		}
		return taken(c.Session(r.GetSessionId()).Watch(ctx, options...), given.Take)
	},
	"ImportSession": func(ctx context.Context, c *memoryd.Client, given call) (any, error) {
		begin := read[memorydpb.ImportSessionRequest](given.Requests[0]).GetBegin()
		messages := func(yield func(*memoryd.Message, error) bool) {
			for _, one := range given.Requests {
				items := read[memorydpb.ImportSessionRequest](one).GetItems()
				for _, message := range items.GetMessages() {
					if !yield(message, nil) {
						return
					}
				}
			}
		}
		return told(c.Session(begin.GetSessionId()).Import(ctx, begin, messages, nil))
	},
	"Set": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.SetRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Set(ctx, r.GetMessages()))
	}),
	"Reset": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.ResetRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Reset(ctx, r.GetScope(), changes(r)...))
	}),
	"UpdateMessage": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.UpdateMessageRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).UpdateMessage(ctx, r.GetMessageId(),
			memoryd.MessageChange{Text: r.Text}, changes(r)...))
	}),
	"DeleteMessage": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.DeleteMessageRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).DeleteMessage(ctx, r.GetMessageId(),
			r.GetWithToolMessages(), changes(r)...))
	}),
	"UpdateContent": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.UpdateContentRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).UpdateContent(ctx, r.GetContentId(),
			memoryd.ContentChange{Text: new(r.GetText())}, changes(r)...))
	}),
	"DeleteContent": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.DeleteContentRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).DeleteContent(ctx, r.GetContentId(), changes(r)...))
	}),
	"Query": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.QueryRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Query(ctx, r.GetQuery()))
	}),
	"CreateSession": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.CreateSessionRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Create(ctx, r.GetConfig()))
	}),
	"GetSession": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.GetSessionRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Info(ctx))
	}),
	"UpdateSession": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.UpdateSessionRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Update(ctx, r.GetConfig()))
	}),
	"DeleteSession": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.DeleteSessionRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Delete(ctx, changes(r)...))
	}),
	"ForkSession": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.ForkSessionRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Fork(ctx, r.GetNewSessionId()))
	}),
	"AddFact": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.AddFactRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Block(r.GetBlock()).AddFact(ctx, r.GetText()))
	}),
	"UpdateFact": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.UpdateFactRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Block(r.GetBlock()).UpdateFact(
			ctx, r.GetFactId(), r.GetText(), changes(r)...))
	}),
	"DeleteFact": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.DeleteFactRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Block(r.GetBlock()).DeleteFact(
			ctx, r.GetFactId(), changes(r)...))
	}),
	"UndoBlockChange": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.UndoBlockChangeRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).Block(r.GetBlock()).Undo(ctx, r.GetChange(), changes(r)...))
	}),
	"RetryJob": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.RetryJobRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).RetryJob(ctx, r.GetJobId()))
	}),
	"CancelJob": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.CancelJobRequest) (any, error) {
		return told(c.Session(r.GetSessionId()).CancelJob(ctx, r.GetJobId()))
	}),
	"PutItem": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.PutItemRequest) (any, error) {
		var options []memoryd.ItemPutOption
		if r.GetPut().ExpectedVersion != nil {
			options = append(options, memoryd.IfVersion(r.GetPut().GetExpectedVersion()))
		}
		return told(c.Namespace(r.GetNamespace()...).Put(ctx, r.GetPut().GetKey(),
			json.RawMessage(r.GetPut().GetJson()), options...))
	}),
	"GetItem": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.GetItemRequest) (any, error) {
		return told(c.Namespace(r.GetNamespace()...).Get(ctx, r.GetGet().GetKey()))
	}),
	"DeleteItem": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.DeleteItemRequest) (any, error) {
		return c.Namespace(r.GetNamespace()...).Delete(ctx, r.GetDelete().GetKey())
	}),
	"PutBatch": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.PutBatchRequest) (any, error) {
		outcomes, err := c.PutBatch(ctx, r.GetPuts()...)
		return told(&memorydpb.PutBatchResponse{Outcomes: outcomes}, err)
	}),
	"BatchItems": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.BatchItemsRequest) (any, error) {
		outcomes, err := c.Batch(ctx, r.GetBatches()...)
		return told(&memorydpb.BatchItemsResponse{Outcomes: outcomes}, err)
	}),
	"CopyNamespace": parsed(func(ctx context.Context, c *memoryd.Client, r *memorydpb.CopyNamespaceRequest) (any, error) {
		return told(c.Namespace(r.GetNamespace()...).CopyTo(ctx, r.GetRecursive(), r.GetNewNamespace()...))
	}),
	"Remember": func(ctx context.Context, c *memoryd.Client, given call) (any, error) {
		user := userOf(given)
		return told(c.User(user.User).RememberText(ctx, user.Messages))
	},
	"Recall": func(ctx context.Context, c *memoryd.Client, given call) (any, error) {
		user := userOf(given)
		return told(c.User(user.User).Recall(ctx, user.Query))
	},
}

type userRequest struct{ User, Messages, Query string }

func userOf(given call) (made userRequest) {
	if err := json.Unmarshal(given.Request, &made); err != nil {
		log.Fatal(err)
	}
	return made
}
