#include "cli/explanation_lines.h"

#include <fmt/format.h>

#include <string>

#include "cli/table.h"

namespace memoryd::cli {
namespace {

// Values that a later server sends are shown by their number.
std::string OutcomeText(const v1::ExplainedBlock& block) {
  switch (block.outcome()) {
    case v1::BLOCK_OUTCOME_SHOWN:
      return "shown";
    case v1::BLOCK_OUTCOME_CUT:
      return fmt::format("cut from {}: over the limit", block.uncut_token_count());
    case v1::BLOCK_OUTCOME_DROPPED:
      return fmt::format("left out, of {}: over the limit", block.uncut_token_count());
    case v1::BLOCK_OUTCOME_EMPTY:
      return "has nothing to say";
    case v1::BLOCK_OUTCOME_MISSING:
      return fmt::format("missing: {}", block.missing_reason());
    default:
      return fmt::format("outcome {}", static_cast<int>(block.outcome()));
  }
}

std::string ReasonText(v1::LeftOutReason reason) {
  switch (reason) {
    case v1::LEFT_OUT_REASON_TOKEN_LIMIT:
      return "over the limit";
    case v1::LEFT_OUT_REASON_RESULT_WITHOUT_CALL:
      return "the call of its result is gone";
    case v1::LEFT_OUT_REASON_CALL_WITHOUT_RESULT:
      return "a result of its calls is missing";
    case v1::LEFT_OUT_REASON_BEFORE_HUMAN:
      return "before the first human message";
    case v1::LEFT_OUT_REASON_EXPIRED:
      return "expired";
    default:
      return fmt::format("reason {}", static_cast<int>(reason));
  }
}

}  // namespace

std::string ExplanationLines(const v1::ContextExplanation& explanation, int width, bool colour) {
  std::string lines =
      fmt::format("\nmessages: {} tokens, {} of them pinned\nblocks: {} tokens\nlimit: {} tokens\n",
                  explanation.message_token_count(), explanation.pinned_token_count(),
                  explanation.block_token_count(), explanation.token_limit());
  if (explanation.short_term_token_limit() > 0) {
    lines += fmt::format("short-term memory: up to {} tokens; then {} leave\n",
                         explanation.short_term_token_limit(), explanation.token_flush_size());
  }
  if (explanation.archived_count() > 0) {
    lines += fmt::format("archived: {} {}, up to position {}\n", explanation.archived_count(),
                         explanation.archived_count() == 1 ? "message" : "messages",
                         explanation.watermark());
  }
  if (explanation.opening_position() > 0) {
    lines += fmt::format("position {} is archived and shown: it opens the newest turn\n",
                         explanation.opening_position());
  }
  if (!explanation.blocks().empty()) {
    Table table({"block", "kind", "priority", "tokens", "in this context"}, width, colour);
    for (const v1::ExplainedBlock& block : explanation.blocks()) {
      table.Add({block.block(), block.kind(), std::to_string(block.priority()),
                 std::to_string(block.token_count()), OutcomeText(block)});
    }
    lines += "\n" + table.Take();
  }
  if (!explanation.left_out().empty()) {
    Table table({"left out", "messages", "tokens", "reason"}, width, colour);
    for (const v1::LeftOutMessages& range : explanation.left_out()) {
      const std::string positions =
          range.first_position() == range.last_position()
              ? std::to_string(range.first_position())
              : fmt::format("{} to {}", range.first_position(), range.last_position());
      table.Add({positions, std::to_string(range.message_count()),
                 std::to_string(range.token_count()), ReasonText(range.reason())});
    }
    lines += "\n" + table.Take();
  }
  return lines;
}

}  // namespace memoryd::cli
