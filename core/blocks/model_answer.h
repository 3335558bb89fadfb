// Decides what of a chat model's answer may become memory.
#ifndef MEMORYD_CORE_BLOCKS_MODEL_ANSWER_H_
#define MEMORYD_CORE_BLOCKS_MODEL_ANSWER_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/llm/model.h"
#include "core/model/body_reader.h"

namespace memoryd {

// An answer without the parts that never become memory.
struct ModelAnswer {
  enum class Status {
    kWhole,
    // The model ran out of tokens. The text is a beginning and must not be stored.
    kCut,
    // There is no answer: reasoning alone, a filter's refusal, or no text.
    kNothing,
  };

  Status status = Status::kWhole;
  std::string text;  // Stripped; "" with kNothing.
};

// Reads a model's raw answer. Removes reasoning (see WithoutReasoning()), the markers that a chat
// template puts around a turn, whatever follows the end of the turn, and `prompt` where the answer
// begins with it. `finish_reason` decides about kCut: `length` and the names that other APIs have
// for it; an unknown or empty one is taken for a whole answer. Any bytes will do. Linear in the
// text. Any thread.
ModelAnswer ReadAnswer(const ChatReply& reply, std::string_view prompt);

// MessageWords(), of a model's message without its reasoning.
std::string SpokenWords(const StoredMessage& message);

// Whether messages of this role are a model's: `assistant`, `ai` and the like.
bool IsModelRole(std::string_view role);

// Whether the text apologises or refuses in place of an answer, in one of the languages of a
// table: "I'm sorry, but I can't help with that."
bool IsApology(std::string_view text);

// Whether an item of a list says that the list has none: "No new facts."
bool IsEmptyItem(std::string_view text);

// Whether a text is a name that stands for something else, as `[name]`, or has a placeholder of our
// prompts in it, as `{messages}`.
bool IsPlaceholder(std::string_view text);

// Recognises pieces of a prompt in a model's answer. Immutable; any thread.
class PromptEcho {
 public:
  // `prompt` is a template, as FillTemplate() takes it.
  explicit PromptEcho(std::string_view prompt);

  // Whether an item of the answer is a placeholder, or is the same by FactKey() as an example in
  // the template: two or more words between tags, between quotes, or alone in a line or list item.
  bool HasItem(std::string_view item) const;

  // Whether a line of the template of at least 40 bytes stands in the text.
  bool HasLine(std::string_view text) const;

 private:
  std::set<std::string> items_;
  std::vector<std::string> lines_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_MODEL_ANSWER_H_
