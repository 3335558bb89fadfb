package memoryd

import (
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

type (
	// ItemPutOption is an option of [Namespace.Put] and [PutOperation].
	ItemPutOption interface{ itemPut(*itemCall) }
	// ItemGetOption is an option of [Namespace.Get] and [GetOperation].
	ItemGetOption interface{ itemGet(*memorydpb.ItemGet) }
	// ItemDeleteOption is an option of [Namespace.Delete] and [DeleteOperation].
	ItemDeleteOption interface{ itemDelete(*itemCall) }
)

// itemCall is a write of an item. A batch uses the operation alone.
type itemCall struct {
	put       *memorydpb.ItemPut
	delete    *memorydpb.ItemDelete
	requestID *string
	config    *memorydpb.NamespaceConfig
}

func (o RequestIDOption) itemPut(c *itemCall)    { c.requestID = proto.String(string(o)) }
func (o RequestIDOption) itemDelete(c *itemCall) { c.requestID = proto.String(string(o)) }

// VersionOption is what [IfVersion] returns.
type VersionOption int64

// IfVersion writes the item only if it is at this version; else the error is [ErrVersionMismatch].
// 0: it must not exist.
func IfVersion(version int64) VersionOption { return VersionOption(version) }

func (o VersionOption) itemPut(c *itemCall)    { c.put.ExpectedVersion = proto.Int64(int64(o)) }
func (o VersionOption) itemDelete(c *itemCall) { c.delete.ExpectedVersion = proto.Int64(int64(o)) }

type itemPutFunc func(*itemCall)

func (o itemPutFunc) itemPut(c *itemCall) { o(c) }

// MIMEType is the type of an item that is bytes.
func MIMEType(mimeType string) ItemPutOption {
	return itemPutFunc(func(c *itemCall) { c.put.MimeType = mimeType })
}

// TTL is how long the item stays. Default: as the namespace says.
func TTL(ttl time.Duration) ItemPutOption {
	return itemPutFunc(func(c *itemCall) {
		c.put.Lifetime = &memorydpb.ItemPut_Ttl{Ttl: durationOf(ttl)}
	})
}

// Forever has the item never expire, also where the namespace has a ttl.
func Forever() ItemPutOption {
	return itemPutFunc(func(c *itemCall) {
		c.put.Lifetime = &memorydpb.ItemPut_WithoutTtl{WithoutTtl: true}
	})
}

// SearchFields are the paths of the fields that searches find the item by; none: it is not found by
// its words. Default: as the namespace says.
func SearchFields(paths ...string) ItemPutOption {
	return itemPutFunc(func(c *itemCall) { c.put.Search = &memorydpb.ItemSearch{Fields: paths} })
}

// Vector is one to find the item by.
func Vector(vector []float32) ItemPutOption {
	return itemPutFunc(func(c *itemCall) { c.put.Vector = vector })
}

// InNamespace is the configuration of the namespace if the call creates it. A batch has its own.
func InNamespace(config *memorydpb.NamespaceConfig) ItemPutOption {
	return itemPutFunc(func(c *itemCall) { c.config = config })
}

type itemGetFunc func(*memorydpb.ItemGet)

func (o itemGetFunc) itemGet(g *memorydpb.ItemGet) { o(g) }

// RefreshTTL says whether the read restarts the item's ttl. Default: as the namespace says.
func RefreshTTL(refresh bool) ItemGetOption {
	return itemGetFunc(func(g *memorydpb.ItemGet) { g.RefreshTtl = &refresh })
}

// ReturnVector has the item come with its vector.
func ReturnVector() ItemGetOption {
	return itemGetFunc(func(g *memorydpb.ItemGet) { g.WithVector = true })
}

// DecodeItem decodes an item's JSON into value. A value of type *[]byte takes the bytes of an item
// that has bytes.
func DecodeItem(item *Item, value any) error {
	switch found := item.GetValue().(type) {
	case *memorydpb.Item_BytesValue:
		if into, ok := value.(*[]byte); ok {
			*into = slices.Clone(found.BytesValue)
			return nil
		}
		return invalid("value", "the item %q is bytes", item.GetKey())
	case *memorydpb.Item_Json:
		return json.Unmarshal([]byte(found.Json), value)
	}
	return invalid("value", "the item %q came without a value", item.GetKey())
}

// PutOperation stores an item; see [Namespace.Put].
func PutOperation(key string, value any, options ...ItemPutOption) (*memorydpb.ItemOperation, error) {
	made, err := newItemPut(key, value, options)
	if err != nil {
		return nil, err
	}
	return &memorydpb.ItemOperation{Operation: &memorydpb.ItemOperation_Put{Put: made.put}}, nil
}

// GetOperation reads an item; see [Namespace.Get].
func GetOperation(key string, options ...ItemGetOption) *memorydpb.ItemOperation {
	return &memorydpb.ItemOperation{Operation: &memorydpb.ItemOperation_Get{Get: newItemGet(key, options)}}
}

// DeleteOperation deletes an item; see [Namespace.Delete].
func DeleteOperation(key string, options ...ItemDeleteOption) *memorydpb.ItemOperation {
	return &memorydpb.ItemOperation{
		Operation: &memorydpb.ItemOperation_Delete{Delete: newItemDelete(key, options).delete},
	}
}

// OutcomeError returns the error of a batch that failed. Details has `operation`, the index of the
// operation at fault, and `version` for [ErrVersionMismatch].
func OutcomeError(outcome *memorydpb.ItemBatchOutcome) error {
	found := outcome.GetError()
	if found == nil {
		return nil
	}
	details := map[string]string{}
	if found.Operation != nil {
		details["operation"] = decimal(int64(found.GetOperation()))
	}
	if Reason(found.GetReason()) == ErrVersionMismatch {
		details["version"] = decimal(found.GetVersion())
	}
	return &Error{
		Code: codes.Code(uint32(found.GetCode())), Message: found.GetMessage(),
		Reason: Reason(found.GetReason()), Details: details,
	}
}

func newItemPut(key string, value any, options []ItemPutOption) (*itemCall, error) {
	made := &itemCall{put: &memorydpb.ItemPut{Key: key}}
	switch value := value.(type) {
	case []byte:
		made.put.Value = &memorydpb.ItemPut_BytesValue{BytesValue: value}
	case json.RawMessage: // Kept byte for byte.
		made.put.Value = &memorydpb.ItemPut_Json{Json: string(value)}
	default:
		text, err := jsonOf(value)
		if err != nil {
			return nil, err
		}
		made.put.Value = &memorydpb.ItemPut_Json{Json: text}
	}
	for _, option := range options {
		option.itemPut(made)
	}
	return made, nil
}

func newItemGet(key string, options []ItemGetOption) *memorydpb.ItemGet {
	made := &memorydpb.ItemGet{Key: key}
	for _, option := range options {
		option.itemGet(made)
	}
	return made
}

func newItemDelete(key string, options []ItemDeleteOption) *itemCall {
	made := &itemCall{delete: &memorydpb.ItemDelete{Key: key}}
	for _, option := range options {
		option.itemDelete(made)
	}
	return made
}
