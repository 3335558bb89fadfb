#include "cli/explanation_lines.h"

#include <gtest/gtest.h>

namespace memoryd::cli {
namespace {

TEST(ExplanationLines, TellsOnlyWhatThereIs) {
  v1::ContextExplanation explanation;
  explanation.set_token_limit(1000);
  explanation.set_message_token_count(7);
  EXPECT_EQ(ExplanationLines(explanation, 0, false),
            "\nmessages: 7 tokens, 0 of them pinned\n"
            "blocks: 0 tokens\n"
            "limit: 1000 tokens\n");
}

TEST(ExplanationLines, TellsWhatBecameOfEachPart) {
  v1::ContextExplanation explanation;
  explanation.set_token_limit(1000);
  explanation.set_short_term_token_limit(700);
  explanation.set_token_flush_size(100);
  explanation.set_watermark(9);
  explanation.set_archived_count(1);
  explanation.set_opening_position(5);
  v1::ExplainedBlock& cut = *explanation.add_blocks();
  cut.set_block("facts");
  cut.set_kind("fact-extraction");
  cut.set_priority(2);
  cut.set_outcome(v1::BLOCK_OUTCOME_CUT);
  cut.set_token_count(30);
  cut.set_uncut_token_count(90);
  v1::ExplainedBlock& missing = *explanation.add_blocks();
  missing.set_block("a\nb");
  missing.set_outcome(v1::BLOCK_OUTCOME_MISSING);
  missing.set_missing_reason("TIMEOUT");
  v1::LeftOutMessages& range = *explanation.add_left_out();
  range.set_first_position(10);
  range.set_last_position(12);
  range.set_message_count(3);
  range.set_token_count(40);
  range.set_reason(v1::LEFT_OUT_REASON_TOKEN_LIMIT);
  // A later server may give reasons that this one does not know.
  explanation.add_left_out();
  explanation.mutable_left_out(1)->set_first_position(14);
  explanation.mutable_left_out(1)->set_last_position(14);
  explanation.mutable_left_out(1)->set_reason(static_cast<v1::LeftOutReason>(77));
  const std::string lines = ExplanationLines(explanation, 0, false);
  for (const char* line : {
           "short-term memory: up to 700 tokens; then 100 leave\n",
           "archived: 1 message, up to position 9\n",
           "position 5 is archived and shown: it opens the newest turn\n",
           "cut from 90: over the limit\n",
           "missing: TIMEOUT\n",
           "10 to 12",
           "over the limit\n",
           "reason 77\n",
       }) {
    EXPECT_NE(lines.find(line), std::string::npos) << line << " in " << lines;
  }
  EXPECT_EQ(lines.find("a\nb"), std::string::npos) << lines;
}

}  // namespace
}  // namespace memoryd::cli
