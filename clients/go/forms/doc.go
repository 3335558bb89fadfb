// Package forms converts messages of OpenAI's chat completions and of Anthropic's API to memoryd's
// messages and back. It works on the JSON of both APIs, so it needs neither package.
//
//	put, err := forms.From(response.Choices[0].Message.ToParam(), toolMessage)
//	_, err = session.Put(ctx, put)
//	reply, err := session.Get(ctx)
//	messages, err := forms.As[openai.ChatCompletionMessageParamUnion](forms.ToOpenAI(reply.GetMessages()))
//
// A message that is read in the form in which it was put equals what was put, whichever client has
// put it. In the other form it is valid there: ids and names are made to fit, results follow their
// calls, and what the form has no place for is left out.
//
// The first rule that matches decides which form a message has:
//
//  1. OpenAI's: the role developer, tool or function, or a key such as tool_calls, tool_call_id,
//     name, refusal, audio or reasoning_content.
//  2. Anthropic's: a block such as image, document, thinking or search_result, or of a type that
//     ends with tool_use or tool_result.
//  3. OpenAI's: a part such as image_url, input_audio, file or refusal.
//  4. Anthropic's: the key type with "message", cache_control or citations in a text, an empty list
//     as content, or an empty text in a list of an assistant's message.
//  5. OpenAI's: any other empty text, or a content of null.
//  6. Any other message is the same in both forms.
package forms
