#include "core/blocks/embedding_state.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace memoryd {
namespace {

TEST(EmbeddingStateTest, IsReadBackAsItWasWritten) {
  EmbeddingState state;
  state.model = "a \"model\"";
  state.size = 384;
  state.cuts = 2;
  const auto read = EmbeddingState::FromJson(state.ToJson());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->model, state.model);
  EXPECT_EQ(read->size, state.size);
  EXPECT_EQ(read->cuts, state.cuts);
  EXPECT_EQ(EmbeddingState::FromJson("")->size, 0U);
  for (const char* broken :
       {"{", "[]", "1", R"({"model":"m","size":3})", R"({"model":1,"size":3,"cuts":0})"}) {
    EXPECT_TRUE(absl::IsDataLoss(EmbeddingState::FromJson(broken).status())) << broken;
  }
}

TEST(EmbeddingStateTest, OnlyWhatCanBeComparedIsAccepted) {
  EmbeddingState state;
  EXPECT_TRUE(state.Accepts(8192, "m").ok());
  EXPECT_EQ(ErrorReason(state.Accepts(8193, "m")), "EMBEDDING_SIZE");
  state.size = 3;
  EXPECT_TRUE(state.Accepts(3, "m").ok());
  EXPECT_EQ(ErrorReason(state.Accepts(4, "m")), "EMBEDDING_SIZE");
  state.model = "m";
  EXPECT_TRUE(state.Accepts(3, "m").ok());
  EXPECT_TRUE(state.Accepts(3, "").ok());
  const absl::Status refused = state.Accepts(3, "other");
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_EQ(ErrorReason(refused), "EMBEDDING_MODEL");
}

}  // namespace
}  // namespace memoryd
