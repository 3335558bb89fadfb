package memoryd

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// importRequests are those of an ImportSession: one begin, the items, one end.
func importRequests(
	sessionID string, begin *memorydpb.ImportBegin,
	messages iter.Seq2[*Message, error], contents iter.Seq2[*Content, error],
) iter.Seq2[proto.Message, error] {
	return func(yield func(proto.Message, error) bool) {
		first := &memorydpb.ImportBegin{}
		if begin != nil {
			first = proto.CloneOf(begin)
		}
		first.SessionId = sessionID
		if !yield(&memorydpb.ImportSessionRequest{
			Step: &memorydpb.ImportSessionRequest_Begin{Begin: first},
		}, nil) {
			return
		}
		items := &memorydpb.ImportItems{}
		bytes := 0
		flush := func() bool {
			sent := &memorydpb.ImportSessionRequest{
				Step: &memorydpb.ImportSessionRequest_Items{Items: items},
			}
			items, bytes = &memorydpb.ImportItems{}, 0
			return yield(sent, nil)
		}
		room := func(size int) bool {
			count := len(items.Messages) + len(items.Contents)
			full := count > 0 && (bytes+size > uploadedBytes || count == uploadedItems)
			bytes += size
			if !full {
				return true
			}
			more := flush()
			bytes = size
			return more
		}
		end := &memorydpb.ImportEnd{}
		taken := each(messages, yield, func(message *Message) bool {
			if !room(proto.Size(message)) {
				return false
			}
			items.Messages = append(items.Messages, message)
			end.MessageCount++
			return true
		}) && each(contents, yield, func(content *Content) bool {
			if !room(proto.Size(content)) {
				return false
			}
			items.Contents = append(items.Contents, content)
			end.ContentCount++
			return true
		})
		if taken && flush() {
			yield(&memorydpb.ImportSessionRequest{
				Step: &memorydpb.ImportSessionRequest_End{End: end},
			}, nil)
		}
	}
}

// each takes the items one after the other. It yields an error of theirs, and returns whether all
// were taken. Nil: there are none.
func each[I any](
	items iter.Seq2[I, error], yield func(proto.Message, error) bool, take func(I) bool,
) bool {
	if items == nil {
		return true
	}
	for item, err := range items {
		if err != nil {
			yield(nil, err)
			return false
		}
		if !take(item) {
			return false
		}
	}
	return true
}

// namespaceRequests are those of an ImportNamespace: one begin, the items, one end.
func namespaceRequests(
	path []string, begin *memorydpb.ImportNamespaceBegin, items iter.Seq2[*Item, error],
) iter.Seq2[proto.Message, error] {
	return func(yield func(proto.Message, error) bool) {
		first := &memorydpb.ImportNamespaceBegin{}
		if begin != nil {
			first = proto.CloneOf(begin)
		}
		first.Namespace = path
		if !yield(&memorydpb.ImportNamespaceRequest{
			Step: &memorydpb.ImportNamespaceRequest_Begin{Begin: first},
		}, nil) {
			return
		}
		some := &memorydpb.ImportNamespaceItems{}
		bytes := 0
		flush := func() bool {
			sent := &memorydpb.ImportNamespaceRequest{
				Step: &memorydpb.ImportNamespaceRequest_Items{Items: some},
			}
			some, bytes = &memorydpb.ImportNamespaceItems{}, 0
			return yield(sent, nil)
		}
		end := &memorydpb.ImportNamespaceEnd{}
		taken := each(items, yield, func(item *Item) bool {
			size, count := proto.Size(item), len(some.Items)
			if count > 0 && (bytes+size > uploadedBytes || count == uploadedItems) && !flush() {
				return false
			}
			some.Items = append(some.Items, item)
			bytes += size
			end.ItemCount++
			return true
		})
		if taken && flush() {
			yield(&memorydpb.ImportNamespaceRequest{
				Step: &memorydpb.ImportNamespaceRequest_End{End: end},
			}, nil)
		}
	}
}
