#include "server/wire/page_token.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"

namespace memoryd {
namespace {

constexpr char kScope[] = "GetAll/0/default/session";

TEST(PageTokenTest, GivesBackWhatWasEncoded) {
  for (const PagePosition& position :
       {PagePosition{0, 0, false}, PagePosition{1, 2, false}, PagePosition{1, 2, true},
        PagePosition{1, 2, false, 3}, PagePosition{1, 2, true, 1},
        PagePosition{std::numeric_limits<std::uint64_t>::max(),
                     std::numeric_limits<std::int64_t>::max(), true},
        PagePosition{std::numeric_limits<std::uint64_t>::max(),
                     std::numeric_limits<std::int64_t>::max(), true,
                     std::numeric_limits<std::int64_t>::max()}}) {
    const auto decoded = DecodePageToken(kScope, EncodePageToken(kScope, position));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->generation, position.generation);
    EXPECT_EQ(decoded->position, position.position);
    EXPECT_EQ(decoded->in_contents, position.in_contents);
    EXPECT_EQ(decoded->until_content, position.until_content);
  }
  for (const std::string& after : {std::string("a"), std::string(256, '\xFF'), std::string()}) {
    EXPECT_EQ(*DecodeListToken("list", EncodeListToken("list", after)), after);
  }
}

TEST(PageTokenTest, APositionAmongContentsIsAnotherToken) {
  EXPECT_NE(EncodePageToken(kScope, {1, 2, false}), EncodePageToken(kScope, {1, 2, true}));
}

// A server that knows no order of pages reads and writes it.
TEST(PageTokenTest, ATokenWithoutABoundOfContentsIsAsItWas) {
  EXPECT_EQ(EncodePageToken(kScope, {1, 2, false}), "Af16O7dBmw0CfMYinQEAAAAAAAAAAgAAAAAAAAAA");
}

TEST(PageTokenTest, IsPlainTextThatGoesIntoAnyUrl) {
  const std::string token = EncodePageToken(kScope, {~std::uint64_t{0}, 12345});
  EXPECT_EQ(token.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789-_="),
            std::string::npos);
}

void ExpectRefused(const absl::Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(ErrorDetails(status), (ErrorValues{{"field", "page_token"}}));
}

TEST(PageTokenTest, ATokenOfAnotherScopeIsRefused) {
  const std::string token = EncodePageToken(kScope, {1, 2});
  for (const char* scope : {"", "GetAll/1/default/session", "GetAll/0/other/session",
                            "GetAll/0/default/session2", "ListSessions/default"}) {
    ExpectRefused(DecodePageToken(scope, token).status());
  }
  ExpectRefused(DecodePageToken(kScope, EncodeListToken(kScope, "session")).status());
}

TEST(PageTokenTest, ATokenCutOrChangedAnywhereIsRefused) {
  const std::string token = EncodePageToken(kScope, {1, 2});
  for (std::size_t length = 0; length + 1 < token.size(); ++length) {
    ExpectRefused(DecodePageToken(kScope, token.substr(0, length)).status());
  }
  for (std::size_t i = 0; i + 1 < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    ExpectRefused(DecodePageToken(kScope, changed).status());
  }
}

TEST(PageTokenTest, AnythingElseIsRefused) {
  for (const std::string& token :
       {std::string("x"), std::string("not base64!"), std::string("\0\xFF", 2),
        std::string(4096, 'A'), std::string("AQ==")}) {
    ExpectRefused(DecodePageToken(kScope, token).status());
    ExpectRefused(DecodeListToken(kScope, token).status());
  }
}

}  // namespace
}  // namespace memoryd
