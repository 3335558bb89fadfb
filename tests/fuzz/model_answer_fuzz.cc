// Any bytes as a raw answer of a chat model, and as two facts.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/blocks/model_answer.h"
#include "core/blocks/reasoning.h"
#include "core/blocks/same_facts.h"
#include "core/llm/model.h"
#include "tests/fuzz/require.h"

namespace {

using memoryd::ChatReply;
using memoryd::ModelAnswer;
using memoryd::ReadAnswer;
using memoryd::Require;

// Texts that say nothing of tags, fences or quotes.
bool IsPlain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ' ' || c == '\n';
  });
}

}  // namespace

// The first byte chooses why the answer ends; the first NUL behind it divides the rest into the
// prompt and the answer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static constexpr std::array<std::string_view, 5> kEnds = {"", "stop", "length", "tool_calls",
                                                            "content_filter"};
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t middle = rest.find('\0');
  const std::string_view prompt = rest.substr(0, std::min(middle, rest.size()));
  const std::string_view text = middle == std::string_view::npos ? rest : rest.substr(middle + 1);

  ChatReply reply;
  reply.text = std::string(text);
  reply.finish_reason = std::string(kEnds[*data % kEnds.size()]);
  const ModelAnswer answer = ReadAnswer(reply, prompt);
  Require(answer.text.size() <= text.size());
  Require((answer.status == ModelAnswer::Status::kNothing) == answer.text.empty() ||
          answer.status == ModelAnswer::Status::kCut);
  Require(reply.finish_reason != "length" || answer.status != ModelAnswer::Status::kWhole);
  Require(memoryd::WithoutReasoning(text).size() <= text.size());
  memoryd::IsApology(text);
  memoryd::IsEmptyItem(text);
  memoryd::IsPlaceholder(text);
  const memoryd::PromptEcho echo(prompt);
  echo.HasItem(text);
  echo.HasLine(text);

  // What a model thought is never the answer, whatever it thought.
  if (IsPlain(text)) {
    for (const std::string_view open :
         {"<think>", "<thinking>", "<reasoning effort=\"high\">", ""}) {
      const std::string_view close = open == "<thinking>"          ? "</thinking>"
                                     : open.starts_with("<reason") ? "</reasoning>"
                                                                   : "</think>";
      ChatReply thought;
      thought.text = std::string(open).append(text).append(close).append("\nsaid");
      thought.finish_reason = "stop";
      Require(ReadAnswer(thought, "").text == "said");
    }
  }

  Require(memoryd::AreTwoFacts(prompt, text) == memoryd::AreTwoFacts(text, prompt));
  Require(memoryd::ShareManyWords(prompt, text) == memoryd::ShareManyWords(text, prompt));
  Require(memoryd::ShareManyWords(text, text));
  return 0;
}
