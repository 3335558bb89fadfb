#include "core/retrieval/authors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

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

TEST(AuthorsTest, NamesAreFoundWithinRunsOfScriptsWithoutSpaces) {
  Authors authors;
  const Authors::Author tanaka = authors.Add("田中");
  const Authors::Author wang = authors.Add("王芳");
  const Authors::Author minsu = authors.Add("김 민수");
  const Authors::Author mali = authors.Add("มาลี");
  authors.Add("林");
  authors.Add("Ann");

  Authors::NamedQuery named = authors.Split("田中さんは何を 買いましたか。");
  EXPECT_EQ(named.rest, "さんは何を 買いましたか。");
  EXPECT_THAT(named.author, Optional(tanaka));
  named = authors.Split("请问王芳的丈夫做什么？");
  EXPECT_EQ(named.rest, "请问 的丈夫做什么");
  EXPECT_THAT(named.author, Optional(wang));
  named = authors.Split("민수는 무엇을 샀어요?");
  EXPECT_EQ(named.rest, "는 무엇을 샀어요?");
  EXPECT_THAT(named.author, Optional(minsu));
  named = authors.Split("มาลีแพ้อะไร");
  EXPECT_EQ(named.rest, "แพอะไร");  // Without its tone mark, as terms are.
  EXPECT_THAT(named.author, Optional(mali));

  // Two of them; one character, which may be of any word; and a name of letters within a word.
  EXPECT_EQ(authors.Split("田中と王芳は").author, std::nullopt);
  EXPECT_EQ(authors.Split("森林在哪里").author, std::nullopt);
  EXPECT_EQ(authors.Split("森林在哪里").rest, "森林在哪里");
  EXPECT_EQ(authors.Split("Joanna").author, std::nullopt);
  // The longest one, and nothing but it.
  const Authors::Author taro = authors.Add("田中太郎");
  EXPECT_THAT(authors.Split("田中太郎さん").author, Optional(taro));
  EXPECT_EQ(authors.Split("田中太郎").rest, "田中太郎");
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
