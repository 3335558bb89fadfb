#include "core/retrieval/authors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memoryd {
namespace {

using ::testing::Optional;

TEST(AuthorsTest, TheNameLeavesTheQueryAndTellsWhoIsMeant) {
  Authors authors;
  const Authors::Author ann = authors.Add("Ann Lee");
  const Authors::Author zoe = authors.Add("Zoë");
  EXPECT_EQ(authors.Add("lee ANN"), ann);

  Authors::NamedQuery named = authors.Split("What did  Ann paint?");
  EXPECT_EQ(named.rest, "What did paint?");
  EXPECT_THAT(named.author, Optional(ann));
  named = authors.Split("Zoe\u2019s, dog");
  EXPECT_EQ(named.rest, "dog");
  EXPECT_THAT(named.author, Optional(zoe));
  named = authors.Split("Lee Ann?");
  EXPECT_EQ(named.rest, "Lee Ann?");  // Else nothing would be left to look for.
  EXPECT_THAT(named.author, Optional(ann));
}

TEST(AuthorsTest, SeveralOrNobodyIsNoAuthor) {
  Authors authors;
  authors.Add("Ann Lee");
  authors.Add("Bob Lee");
  EXPECT_EQ(authors.Split("Ann and Bob met").author, std::nullopt);
  EXPECT_EQ(authors.Split("Ann and Bob met").rest, "and met");
  EXPECT_EQ(authors.Split("the Lees' and Lee's house").author, std::nullopt);
  EXPECT_EQ(authors.Split("an announcement").author, std::nullopt);
  EXPECT_EQ(authors.Split("").rest, "");
}

TEST(AuthorsTest, RolesAreNoNames) {
  Authors authors;
  const Authors::Author user = authors.Add("user");
  const Authors::Author assistant = authors.Add("Assistant");
  EXPECT_TRUE(authors.is_role_chat());
  EXPECT_TRUE(authors.IsUser(user));
  EXPECT_FALSE(authors.IsUser(assistant));
  EXPECT_EQ(authors.Split("the user asks").rest, "the user asks");
  EXPECT_EQ(authors.Split("the user asks").author, std::nullopt);
  authors.Add("Ann");
  EXPECT_FALSE(authors.is_role_chat());
}

}  // namespace
}  // namespace memoryd
