#include "cli/table.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "cli/terminal_text.h"

namespace memoryd::cli {
namespace {

TEST(Table, AlignsColumns) {
  Table table({"ID", "TEXT"}, 0);
  table.Add({"a", "one"});
  table.Add({"世界", "two"});
  table.Add({"ccc", ""});
  EXPECT_EQ(table.Take(),
            "ID    TEXT\n"
            "a     one\n"
            "世界  two\n"
            "ccc\n");
}

TEST(Table, NamesItsColumnsOnceAndKeepsTheirWidth) {
  Table table({"ID", "TEXT"}, 0);
  table.Add({"aaaa", "one"});
  EXPECT_EQ(table.Take(), "ID    TEXT\naaaa  one\n");
  table.Add({"b", "two"});
  EXPECT_EQ(table.Take(), "b     two\n");
  EXPECT_EQ(table.Take(), "");
}

TEST(Table, EscapesCells) {
  Table table({"ID", "TEXT"}, 0);
  table.Add({"a", "one\n\x1b[31mtwo"});
  EXPECT_EQ(table.Take(), "ID  TEXT\na   one\\n\\u{1B}[31mtwo\n");
}

TEST(Table, CutsTheWidestColumnToTheTerminal) {
  Table table({"ID", "TEXT", "MORE"}, 30);
  table.Add({"id", std::string(1'000'000, 'x'), "more"});
  EXPECT_EQ(table.Take(),
            "ID  TEXT                  MORE\n"
            "id  xxxxxxxxxxxxxxxxxxx…  more\n");
}

TEST(Table, NoLineIsWiderThanTheTerminal) {
  for (const int width : {1, 5, 10, 20, 40, 80}) {
    Table table({"SESSION", "NAME", "TEXT"}, width);
    table.Add({std::string(100, 's'), std::string(90, 'n'), std::string(300, 't')});
    table.Add({"s", "世界世界世界世界世界世界", "世界世界世界世界世界世界世界世界世界"});
    std::istringstream lines(table.Take());
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_LE(DisplayWidth(line), width) << line;
    }
    EXPECT_EQ(count, 3);
  }
}

}  // namespace
}  // namespace memoryd::cli
