#include "core/blocks/embedding_state.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"

namespace memoryd {
namespace {

EmbeddingSource By(std::string model, std::size_t size = 3, std::string embedder = "e",
                   std::string worker = "") {
  return {std::move(embedder), std::move(worker), std::move(model), size};
}

TEST(EmbeddingStateTest, IsReadBackAsItWasWritten) {
  EmbeddingState state;
  state.source = By("a \"model\"", 384, "", "worker");
  state.cuts = 2;
  for (int more = 0; more < 2; ++more) {
    const auto read = EmbeddingState::FromJson(state.ToJson());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->source, state.source);
    EXPECT_EQ(read->cuts, state.cuts);
    EXPECT_EQ(read->look_again, state.look_again);
    EXPECT_EQ(read->next, state.next);
    state.look_again = 7;
    state.next = {~std::uint64_t{0}, By("", 0, "other", "w"), 129, 65, true};
  }
  EXPECT_EQ(EmbeddingState::FromJson("")->source.size, 0U);
  for (const char* broken :
       {"{", "[]", "1", R"({"model":"m","size":3})", R"({"model":1,"size":3,"cuts":0})",
        R"({"model":"m","size":3,"cuts":0,"embedder":1})",
        R"({"model":"m","size":3,"cuts":0,"look_again":"1"})",
        R"({"model":"m","size":3,"cuts":0,"next":{"model":"m","size":3}})",
        R"({"model":"m","size":3,"cuts":0,"next":[]})"}) {
    EXPECT_TRUE(absl::IsDataLoss(EmbeddingState::FromJson(broken).status())) << broken;
  }
}

TEST(EmbeddingStateTest, WhatWasStoredWithoutNamesIsRead) {
  const auto read = EmbeddingState::FromJson(R"({"model":"m","size":3,"cuts":1})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->source, By("m", 3, ""));
  EXPECT_FALSE(read->next.has_value());
}

TEST(EmbeddingSourceTest, OnlyWhatCanBeComparedIsAccepted) {
  const EmbeddingSource made = By("m");
  EXPECT_TRUE(made.Accepts(By("m", 3, "renamed")).ok());
  EXPECT_TRUE(made.Accepts(By("")).ok());
  EXPECT_TRUE(By("").Accepts(By("m")).ok());
  EXPECT_TRUE(By("m", 3, "").Accepts(By("", 3, "unknown before")).ok());
  EXPECT_EQ(ErrorReason(made.Accepts(By("m", 4))), "EMBEDDING_SIZE");
  const absl::Status refused = made.Accepts(By("other"));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_EQ(ErrorReason(refused), "EMBEDDING_MODEL");
  EXPECT_EQ(refused.message(),
            "the vectors that are stored are by model m, the embedder's now by model other");
  // Who does not say his model is known by his name.
  EXPECT_EQ(ErrorReason(By("").Accepts(By("", 3, "other"))), "EMBEDDING_MODEL");
  EXPECT_EQ(ErrorReason(By("").Accepts(By("", 3, "e", "w"))), "EMBEDDING_MODEL");
  EXPECT_TRUE(CheckEmbeddingSize(8192).ok());
  EXPECT_EQ(ErrorReason(CheckEmbeddingSize(8193)), "EMBEDDING_SIZE");
}

TEST(EmbeddingStateTest, TheFirstAnswerSaysWhatMakesThem) {
  EmbeddingState state;
  EXPECT_EQ(state.Answered(By("m")).value(), true);
  EXPECT_EQ(state.source, By("m"));
  // Of one that now does not say its model, what it said before is kept.
  EXPECT_EQ(state.Answered(By("")).value(), true);
  EXPECT_EQ(state.source, By("m"));
  EXPECT_EQ(ErrorReason(state.Answered(By("m", 8193)).status()), "EMBEDDING_SIZE");
  EXPECT_FALSE(state.next.has_value());
}

TEST(EmbeddingStateTest, AnotherModelBeginsAnewAndTheFirstOneTakesThatBack) {
  EmbeddingState state;
  state.source = By("m", 3, "");
  EXPECT_EQ(state.Answered(By("new", 4)).value(), false);
  EXPECT_EQ(state.source, By("m"));
  ASSERT_TRUE(state.next.has_value());
  EXPECT_EQ(state.next->source, By("new", 4));
  EXPECT_EQ(state.next->generation, 0U);
  state.next->generation = 5;
  state.next->next_entry = 9;
  EXPECT_EQ(state.Answered(By("new", 4)).value(), true);
  EXPECT_EQ(state.next->generation, 5U);
  // A third one.
  EXPECT_EQ(state.Answered(By("newer", 4)).value(), false);
  EXPECT_EQ(state.next->source, By("newer", 4));
  EXPECT_EQ(state.next->generation, 0U);
  EXPECT_EQ(state.next->next_entry, 1);
  EXPECT_EQ(state.Answered(By("m")).value(), false);
  EXPECT_FALSE(state.next.has_value());
  EXPECT_EQ(state.look_again, 1);
  EXPECT_EQ(state.Answered(By("m")).value(), true);
}

TEST(EmbeddingStateTest, AnotherEmbedderOfTheSameModelMakesThemAnewAsItWasAskedTo) {
  EmbeddingState state;
  state.source = By("m");
  NextEmbeddings& next = state.next.emplace();
  next.generation = 5;
  next.source = By("", 0, "other");
  EXPECT_EQ(state.Answered(By("m", 3, "other")).value(), true);
  EXPECT_EQ(state.next->source, By("m", 3, "other"));
  EXPECT_EQ(state.Answered(By("m2", 3, "other")).value(), false);
  EXPECT_EQ(state.Answered(By("m", 3, "other")).value(), false);
  EXPECT_TRUE(state.next.has_value()) << "not what the session's first embedder made";
}

}  // namespace
}  // namespace memoryd
