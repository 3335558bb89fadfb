#include "core/items/item_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "core/items/item.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

bool Passes(const std::string& filter, const std::string& value) {
  ItemContent content;
  content.value = value;
  return ItemFilter::Parse("filter_json", filter).value().Passes(content).value();
}

std::string ErrorOf(const std::string& filter) {
  return std::string(ItemFilter::Parse("filter_json", filter).status().message());
}

TEST(ItemFilterTest, NothingToTestLetsEverythingPass) {
  for (const char* filter : {"", "{}", " { } "}) {
    EXPECT_TRUE(Passes(filter, "3"));
    ItemContent bytes;
    bytes.kind = ItemValueKind::kBytes;
    EXPECT_TRUE(ItemFilter::Parse("filter_json", filter).value().Passes(bytes).value());
  }
}

TEST(ItemFilterTest, BytesAndOtherValuesThanObjectsPassNoFilter) {
  EXPECT_FALSE(Passes(R"({"a": null})", "3"));
  EXPECT_FALSE(Passes(R"({"a": null})", "[]"));
  ItemContent bytes;
  bytes.kind = ItemValueKind::kBytes;
  bytes.value = R"({"a": 1})";
  EXPECT_FALSE(ItemFilter::Parse("filter_json", R"({"a": 1})").value().Passes(bytes).value());
}

TEST(ItemFilterTest, AllFieldsMustHold) {
  EXPECT_TRUE(Passes(R"({"a": 1, "b": "x"})", R"({"b": "x", "a": 1, "c": true})"));
  EXPECT_FALSE(Passes(R"({"a": 1, "b": "x"})", R"({"a": 1, "b": "y"})"));
}

TEST(ItemFilterTest, AMissingFieldEqualsNull) {
  EXPECT_TRUE(Passes(R"({"a": null})", "{}"));
  EXPECT_TRUE(Passes(R"({"a": {"$ne": 1}})", "{}"));
  EXPECT_FALSE(Passes(R"({"a": {"$ne": null}})", "{}"));
  EXPECT_FALSE(Passes(R"({"a": {"$lt": 1}})", "{}"));
  EXPECT_FALSE(Passes(R"({"a": {}})", "{}"));
}

TEST(ItemFilterTest, NumbersAreComparedByTheirValue) {
  EXPECT_TRUE(Passes(R"({"a": 1})", R"({"a": 1.0})"));
  EXPECT_TRUE(Passes(R"({"a": -0.0})", R"({"a": 0})"));
  EXPECT_FALSE(Passes(R"({"a": 9007199254740993})", R"({"a": 9007199254740992.0})"));
  EXPECT_TRUE(Passes(R"({"a": {"$gt": 9223372036854775807}})", R"({"a": 9223372036854775808.0})"));
  EXPECT_TRUE(Passes(R"({"a": {"$gt": 18446744073709551614}})", R"({"a": 18446744073709551615})"));
  EXPECT_TRUE(Passes(R"({"a": {"$gt": -1}})", R"({"a": 18446744073709551615})"));
}

TEST(ItemFilterTest, ValuesOfDifferentTypesAreNeverEqualAndHaveNoOrder) {
  EXPECT_FALSE(Passes(R"({"a": 1})", R"({"a": true})"));
  EXPECT_FALSE(Passes(R"({"a": "1"})", R"({"a": 1})"));
  EXPECT_TRUE(Passes(R"({"a": {"$ne": "1"}})", R"({"a": 1})"));
  for (const char* op : {"$gt", "$gte", "$lt", "$lte"}) {
    const std::string filter = std::string(R"({"a": {")") + op + R"(": 5}})";
    for (const char* value : {R"("9")", "true", "null", "[9]", "{}"}) {
      EXPECT_FALSE(Passes(filter, std::string(R"({"a": )") + value + "}")) << op << value;
    }
  }
}

TEST(ItemFilterTest, TextsAreOrderedByteByByte) {
  EXPECT_TRUE(Passes(R"({"a": {"$gt": "2026-05", "$lt": "2026-06"}})", R"({"a": "2026-05-31"})"));
  EXPECT_TRUE(Passes(R"({"a": {"$gte": "z"}})", "{\"a\": \"\xC3\xA9\"}"));
  EXPECT_FALSE(Passes(R"({"a": {"$lte": "a"}})", R"({"a": "aa"})"));
}

TEST(ItemFilterTest, ObjectsAndArraysAreTestedWithin) {
  EXPECT_TRUE(Passes(R"({"a": {"b": {"$gte": 2}}})", R"({"a": {"b": 2, "c": 3}})"));
  EXPECT_FALSE(Passes(R"({"a": {"b": {"$gte": 2}}})", R"({"a": [2]})"));
  EXPECT_TRUE(Passes(R"({"a": [{"$gt": 1}, "x"]})", R"({"a": [2, "x"]})"));
  EXPECT_FALSE(Passes(R"({"a": [1]})", R"({"a": [1, 2]})"));
  EXPECT_FALSE(Passes(R"({"a": {"$eq": {"b": 2}}})", R"({"a": {"b": 2, "c": 3}})"));
  EXPECT_TRUE(Passes(R"({"a": {"$eq": {"b": [2, {}]}}})", R"({"a": {"b": [2.0, {}]}})"));
}

TEST(ItemFilterTest, AValueWithMoreThanTheFilterLooksAtIsNotEqual) {
  EXPECT_FALSE(Passes(R"({"a": {"$eq": []}})", R"({"a": [1]})"));
  EXPECT_FALSE(Passes(R"({"a": {"$eq": [[1], 2]}})", R"({"a": [[1, 5, 6, 7, 8], 2]})"));
  EXPECT_TRUE(Passes(R"({"a": {"$ne": {"b": [1]}}})", R"({"a": {"b": [1, {}], "c": 1}})"));
  EXPECT_TRUE(Passes(R"({"a": {"$ne": [1]}, "b": {"c": 2}})",
                     R"({"a": [1, 2, [3]], "z": {"b": 5}, "b": {"x": [[]], "c": 2}})"));
  EXPECT_FALSE(Passes(R"({"a": [{"$ne": 1}]})", R"({"a": [2, 3, 4]})"));
  EXPECT_TRUE(Passes(R"({"a": [{"$ne": [1]}, {"$eq": [2]}]})", R"({"a": [[1, 2, 3], [2]]})"));
}

TEST(ItemFilterTest, AnIntegerLargerThanADoubleIsLargerThanAll) {
  const std::string large(350, '9');
  EXPECT_TRUE(Passes(R"({"a": {"$gt": 1e308}})", R"({"a": )" + large + "}"));
  EXPECT_TRUE(Passes(R"({"a": {"$lt": -1e308}})", R"({"a": -)" + large + "}"));
  EXPECT_THAT(ErrorOf(R"({"a": )" + large + "}"), HasSubstr("filter_json: has a number"));
}

// The most memory that this process has had so far, in KiB.
std::int64_t PeakMemory() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(ItemFilterTest, NoTreeIsMadeOfAValue) {
  ItemContent content;
  content.value = R"({"a":[{})";
  while (content.value.size() < std::size_t{16} << 20) content.value += ",{},[],{}";
  content.value += "]}";
  const std::int64_t before = PeakMemory();
  for (const char* filter : {R"({"b": 1})", R"({"a": 1})", R"({"a": []})", R"({"a": [{}, {}]})",
                             R"({"a": {"$eq": [{}, []]}})", R"({"a": {"$gt": 1}})"}) {
    EXPECT_FALSE(ItemFilter::Parse("filter_json", filter).value().Passes(content).value());
  }
  EXPECT_LT(PeakMemory() - before, 8 << 10);
}

TEST(ItemFilterTest, AKeyIsNoPath) {
  EXPECT_TRUE(Passes(R"({"a.b": 1})", R"({"a.b": 1})"));
  EXPECT_FALSE(Passes(R"({"a.b": 1})", R"({"a": {"b": 1}})"));
}

TEST(ItemFilterTest, SaysWhatIsWrongWithAFilter) {
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("filter_json: "));
  EXPECT_THAT(ErrorOf(R"({"a": NaN})"), HasSubstr("filter_json: "));
  EXPECT_THAT(ErrorOf(R"({"a": {"$in": [1]}})"), HasSubstr("filter_json: has an unknown operator"));
  EXPECT_THAT(ErrorOf(R"({"a": {"$gt": 1, "b": 2}})"), HasSubstr("operators and other keys"));
  EXPECT_THAT(ErrorOf(R"({"$or": []})"), HasSubstr("must have fields of the value as its keys"));
  EXPECT_THAT(ErrorOf("{\"a\": \"" + std::string(kMaxFilterBytes, 'x') + "\"}"),
              HasSubstr("filter_json: must be at most 65536 bytes"));
  const std::string deep(kMaxFilterDepth, '[');
  EXPECT_THAT(ErrorOf("{\"a\": " + deep + std::string(deep.size(), ']') + "}"),
              HasSubstr("filter_json: "));
  std::string keys;
  for (std::size_t i = 0; i <= kMaxFilterKeys; ++i) {
    keys += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
  }
  EXPECT_THAT(ErrorOf("{" + keys + "}"), HasSubstr("filter_json: "));
}

TEST(ItemFilterTest, AValueThatCannotBeReadBackIsDataLoss) {
  ItemContent content;
  content.value = "{";
  EXPECT_EQ(ItemFilter::Parse("filter_json", R"({"a": 1})").value().Passes(content).status().code(),
            absl::StatusCode::kDataLoss);
}

// The rules of the wire's comment once more, on small values whose numbers all are doubles.
bool EqualNaively(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<double>() == b.get<double>();
  if (a.is_array() && b.is_array()) {
    bool equal = a.size() == b.size();
    for (std::size_t i = 0; equal && i < a.size(); ++i) equal = EqualNaively(a[i], b[i]);
    return equal;
  }
  if (a.is_object() && b.is_object()) {
    bool equal = a.size() == b.size();
    for (const auto& [key, value] : a.items()) {
      equal = equal && b.contains(key) && EqualNaively(value, b[key]);
    }
    return equal;
  }
  return a.dump() == b.dump();
}

// Below 0, 0 or above 0; nullopt: they have no order.
std::optional<double> CompareNaively(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<double>() - b.get<double>();
  if (a.is_string() && b.is_string()) return a.get<std::string>().compare(b.get<std::string>());
  return std::nullopt;
}

bool TestsNaively(const std::string& test, const Json& wanted, const Json& value) {
  if (test == "$eq") return EqualNaively(wanted, value);
  if (test == "$ne") return !EqualNaively(wanted, value);
  const std::optional<double> order = CompareNaively(value, wanted);
  if (!order.has_value()) return false;
  if (test == "$gt") return *order > 0;
  if (test == "$gte") return *order >= 0;
  if (test == "$lt") return *order < 0;
  return test == "$lte" && *order <= 0;
}

bool HoldsNaively(const Json& condition, const Json& value) {
  if (condition.is_array()) {
    bool holds = value.is_array() && value.size() == condition.size();
    for (std::size_t i = 0; holds && i < condition.size(); ++i) {
      holds = HoldsNaively(condition[i], value[i]);
    }
    return holds;
  }
  if (!condition.is_object()) return EqualNaively(condition, value);
  for (const auto& [key, wanted] : condition.items()) {
    const bool holds =
        key.starts_with('$')
            ? TestsNaively(key, wanted, value)
            : value.is_object() && HoldsNaively(wanted, value.contains(key) ? value[key] : Json());
    if (!holds) return false;
  }
  const bool tests = !condition.empty() && condition.begin().key().starts_with('$');
  return tests || value.is_object();
}

class RandomJson {
 public:
  explicit RandomJson(unsigned seed) : random_(seed) {}

  int Below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

  Json Value(int depth) {
    switch (Below(depth > 0 ? 7 : 5)) {
      case 0:
        return Json();
      case 1:
        return Below(2) == 0;
      case 2:
        return Below(3);
      case 3:
        return Below(3) + 0.0;
      case 4:
        return std::string(1, static_cast<char>('a' + Below(3)));
      case 5: {
        Json array = Json::array();
        for (int i = Below(3); i > 0; --i) array.push_back(Value(depth - 1));
        return array;
      }
      default:
        return Object(depth - 1);
    }
  }

  Json Object(int depth) {
    Json object = Json::object();
    for (int i = Below(4); i > 0; --i) object[Key()] = Value(depth);
    return object;
  }

  Json Condition(int depth) {
    static const char* const kOperators[] = {"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"};
    const int kind = Below(4);
    Json condition = Json::object();
    if (kind == 0) return Value(depth);
    for (int i = 1 + Below(2); i > 0; --i) {
      if (kind == 1 && depth > 0) {
        condition[Key()] = Condition(depth - 1);
      } else {
        condition[kOperators[Below(6)]] = Value(depth - 1);
      }
    }
    return condition;
  }

  std::string Key() { return std::string(1, static_cast<char>('p' + Below(3))); }

 private:
  std::mt19937 random_;
};

TEST(ItemFilterTest, PassesWhatANaiveModelPassesSeed31) {
  RandomJson random(31);
  int passed = 0;
  for (int i = 0; i < 20'000; ++i) {
    Json filter = Json::object();
    for (int n = 1 + random.Below(2); n > 0; --n) filter[random.Key()] = random.Condition(2);
    const Json value = random.Object(2);
    const bool passes = HoldsNaively(filter, value);
    passed += passes ? 1 : 0;
    ASSERT_EQ(Passes(filter.dump(), value.dump()), passes) << filter << " of " << value;
  }
  EXPECT_GT(passed, 1'000);
}

}  // namespace
}  // namespace memoryd
