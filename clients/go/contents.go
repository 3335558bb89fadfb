package memoryd

import (
	"context"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// Content returns a content, or [ErrContentNotFound].
func (s *Session) Content(ctx context.Context, contentID string) (*Content, error) {
	reply, err := invoke[memorydpb.GetContentResponse](ctx, s.client,
		&memorydpb.GetContentRequest{SessionId: s.id, ContentId: contentID},
		call{method: memorydpb.MemoryService_GetContent_FullMethodName})
	return reply.GetContent(), err
}

// ContentChange is what [Session.UpdateContent] changes. Fields that are nil stay. At most one of
// Text, Bytes, JSON and Image may be given.
type ContentChange struct {
	Text         *string
	Bytes        []byte
	JSON         *string
	Image        *Media
	MIMEType     *string
	MetadataJSON *string
}

// UpdateContent changes a content in place.
func (s *Session) UpdateContent(
	ctx context.Context, contentID string, change ContentChange, options ...ChangeOption,
) (*memorydpb.UpdateContentResponse, error) {
	request := &memorydpb.UpdateContentRequest{
		SessionId: s.id, ContentId: contentID, MimeType: change.MIMEType,
		MetadataJson: change.MetadataJSON,
	}
	given := 0
	if change.Text != nil {
		request.Value = &memorydpb.UpdateContentRequest_Text{Text: *change.Text}
		given++
	}
	if change.Bytes != nil {
		request.Value = &memorydpb.UpdateContentRequest_BytesValue{BytesValue: change.Bytes}
		given++
	}
	if change.JSON != nil {
		request.Value = &memorydpb.UpdateContentRequest_Json{Json: *change.JSON}
		given++
	}
	if change.Image != nil {
		request.Value = &memorydpb.UpdateContentRequest_Image{Image: change.Image}
		given++
	}
	if given > 1 {
		return nil, invalid("change", "a content has one value; got %d", given)
	}
	changed(&request.RequestId, &request.ExpectedRevision, options)
	return invoke[memorydpb.UpdateContentResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_UpdateContent_FullMethodName})
}

// DeleteContent deletes a content.
func (s *Session) DeleteContent(
	ctx context.Context, contentID string, options ...ChangeOption,
) (*memorydpb.DeleteContentResponse, error) {
	request := &memorydpb.DeleteContentRequest{SessionId: s.id, ContentId: contentID}
	changed(&request.RequestId, &request.ExpectedRevision, options)
	return invoke[memorydpb.DeleteContentResponse](ctx, s.client, request,
		call{method: memorydpb.MemoryService_DeleteContent_FullMethodName})
}
