#include "core/storage/stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Spelling {
  const char* url;
  std::string_view kind;
  const char* place;
  const char* former_place = "";
};

TEST(StoresTest, EverySpellingNamesItsPlace) {
  for (const Spelling& spelling : {
           // As memoryd has always had them: the same before and now.
           Spelling{"sqlite:memory.db", "sqlite", "memory.db"},
           Spelling{"sqlite:a/b: c?d#e", "sqlite", "a/b: c?d#e"},
           Spelling{"sqlite:/var/lib/memory.db", "sqlite", "/var/lib/memory.db"},
           Spelling{"sqlite::memory:", "sqlite", ":memory:"},
           // SQLAlchemy's.
           Spelling{"sqlite:///memory.db", "sqlite", "memory.db", "/memory.db"},
           Spelling{"sqlite:///./a/memory.db", "sqlite", "./a/memory.db", "/./a/memory.db"},
           Spelling{"sqlite:////var/lib/memory.db", "sqlite", "/var/lib/memory.db"},
           Spelling{"sqlite://///memory.db", "sqlite", "//memory.db"},
           Spelling{"sqlite:///:memory:", "sqlite", ":memory:", "/:memory:"},
           // No earlier version took these.
           Spelling{"sqlite+aiosqlite:///memory.db", "sqlite", "memory.db"},
           Spelling{"sqlite+aiosqlite:////var/memory.db", "sqlite", "/var/memory.db"},
           Spelling{"sqlite+aiosqlite:///:memory:", "sqlite", ":memory:"},
           Spelling{"sqlite+pysqlite:///memory.db", "sqlite", "memory.db"},
           Spelling{"postgresql://u:p@h1:1,h2/d?a=b", "postgresql",
                    "postgresql://u:p@h1:1,h2/d?a=b"},
           Spelling{"postgresql:///d?host=/run", "postgresql", "postgresql:///d?host=/run"},
           Spelling{"postgres://u:p@h/d", "postgresql", "postgresql://u:p@h/d"},
           Spelling{"postgresql+psycopg://u:p@h/d", "postgresql", "postgresql://u:p@h/d"},
           Spelling{"postgresql+psycopg2://h/d", "postgresql", "postgresql://h/d"},
           Spelling{"postgresql+psycopg_async://h/d", "postgresql", "postgresql://h/d"},
           Spelling{"postgresql+asyncpg://h/d", "postgresql", "postgresql://h/d"},
           Spelling{"postgresql+pg8000://h/d", "postgresql", "postgresql://h/d"},
           Spelling{"postgres+asyncpg://h/d", "postgresql", "postgresql://h/d"},
       }) {
    const auto parsed = ParseStoreUrl(spelling.url);
    ASSERT_TRUE(parsed.ok()) << spelling.url << ": " << parsed.status();
    EXPECT_EQ(parsed->kind, spelling.kind) << spelling.url;
    EXPECT_EQ(parsed->place, spelling.place) << spelling.url;
    EXPECT_EQ(parsed->former_place, spelling.former_place) << spelling.url;
  }
}

TEST(StoresTest, WhatIsRefusedSaysWhatToWrite) {
  for (const auto& [url, written] : {
           std::pair{"", "sqlite:PATH"},
           std::pair{"memory.db", "sqlite:memory.db"},
           std::pair{"/var/lib/memory.db", "sqlite:/var/lib/memory.db"},
           std::pair{"host=h dbname=d", "postgresql://"},
           std::pair{"://h/d", "has no scheme"},
           std::pair{"mysql://h/d", "mysql:, a scheme of no store: write sqlite:PATH"},
           std::pair{"sqlite3:memory.db", "sqlite3:, a scheme of no store"},
           std::pair{"Postgres://h/d", "postgresql://"},
           std::pair{"localhost:5432/d", "postgresql://"},
           std::pair{"sqlite:", "sqlite:PATH"},
           std::pair{"sqlite://", "sqlite:///memory.db"},
           std::pair{"sqlite:///", "sqlite:///memory.db"},
           std::pair{"sqlite+aiosqlite://", "sqlite+aiosqlite:///memory.db"},
           std::pair{"sqlite://memory.db", "sqlite:///memory.db"},
           std::pair{"sqlite://var/memory.db", "sqlite:////var/memory.db"},
           std::pair{"sqlite:///memory.db?mode=ro", "?"},
           std::pair{"sqlite+aiosqlite:memory.db", "sqlite+aiosqlite:///memory.db"},
           std::pair{"sqlite+pysqlcipher:///memory.db", "sqlite:PATH"},
           std::pair{"postgresql:host=h", "postgresql://"},
           std::pair{"postgresql+psycopg:/h/d", "postgresql://"},
           std::pair{"postgresql+jdbc://h/d", "postgresql://"},
           std::pair{"postgresql+://h/d", "postgresql://"},
       }) {
    const absl::Status status = ParseStoreUrl(url).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << url << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(written)) << url;
  }
}

TEST(StoresTest, ARefusalHoldsNoPassword) {
  for (const char* url :
       {"host=h password=secret", "u:secret@h/d", "secret@h:1/d", "mysql://u:secret@h/d",
        "sqlite://u:secret@h/d", "postgresql+jdbc://u:secret@h/d", "postgresql:u:secret@h/d"}) {
    const absl::Status status = ParseStoreUrl(url).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << url;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret"))) << url;
  }
}

}  // namespace
}  // namespace memoryd
