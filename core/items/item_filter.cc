#include "core/items/item_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_check.h"
#include "core/base/status_macros.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;

// So that every 64-bit integer and every double has its own value in it.
using Exact = long double;
static_assert(std::numeric_limits<Exact>::digits >= 64);

Exact ExactNumber(const Json& number) {
  if (number.is_number_unsigned()) return static_cast<Exact>(number.get<std::uint64_t>());
  if (number.is_number_integer()) return static_cast<Exact>(number.get<std::int64_t>());
  return static_cast<Exact>(number.get<double>());
}

// Not Json's own comparison, which takes integers for doubles. Values are at most 64 levels deep.
bool AreEqual(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return ExactNumber(a) == ExactNumber(b);
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), &AreEqual);
  if (a.is_object()) {
    return std::all_of(a.items().begin(), a.items().end(), [&b](const auto& field) {
      const auto other = b.find(field.key());
      return other != b.end() && AreEqual(field.value(), *other);
    });
  }
  return a == b;
}

// Unordered unless both are numbers or both are texts.
std::partial_ordering Compare(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return ExactNumber(a) <=> ExactNumber(b);
  if (!a.is_string() || !b.is_string()) return std::partial_ordering::unordered;
  return a.get_ref<const std::string&>().compare(b.get_ref<const std::string&>()) <=> 0;
}

enum class Operator { kEq, kNe, kGt, kGte, kLt, kLte };

struct OperatorName {
  std::string_view name;
  Operator op;
};

constexpr std::array kOperators = {
    OperatorName{"$eq", Operator::kEq}, OperatorName{"$ne", Operator::kNe},
    OperatorName{"$gt", Operator::kGt}, OperatorName{"$gte", Operator::kGte},
    OperatorName{"$lt", Operator::kLt}, OperatorName{"$lte", Operator::kLte},
};

struct Test {
  Operator op = Operator::kEq;
  Json operand;
};

bool Holds(const Test& test, const Json& value) {
  switch (test.op) {
    case Operator::kEq:
      return AreEqual(value, test.operand);
    case Operator::kNe:
      return !AreEqual(value, test.operand);
    case Operator::kGt:
      return Compare(value, test.operand) > 0;
    case Operator::kGte:
      return Compare(value, test.operand) >= 0;
    case Operator::kLt:
      return Compare(value, test.operand) < 0;
    case Operator::kLte:
      return Compare(value, test.operand) <= 0;
  }
  return false;
}

bool IsOperator(std::string_view key) { return key.starts_with('$'); }

bool HasOperator(const Json& object) {
  return std::any_of(object.items().begin(), object.items().end(),
                     [](const auto& field) { return IsOperator(field.key()); });
}

absl::StatusOr<Test> ParseTest(const FieldPath& field, const std::string& name,
                               const Json& operand) {
  const auto* const found =
      std::find_if(kOperators.begin(), kOperators.end(),
                   [&name](const OperatorName& known) { return known.name == name; });
  if (found == kOperators.end()) {
    return InvalidField(field, IsOperator(name)
                                   ? "has an unknown operator: use $eq, $ne, $gt, $gte, $lt, $lte"
                                   : "has an object with operators and other keys: separate them");
  }
  return Test{found->op, operand};
}

}  // namespace

// What a value must be. Exactly one of the three kinds.
struct ItemFilter::Condition {
  enum class Kind { kTests, kObject, kArray };

  struct Field;

  Kind kind = Kind::kTests;
  std::vector<Test> tests;          // kTests: all hold.
  std::vector<Field> fields;        // kObject: it is an object, and all of these hold.
  std::vector<Condition> elements;  // kArray: it is an array of as many, which hold in turn.

  static absl::StatusOr<Condition> Parse(const FieldPath& field, const Json& json);
  static absl::StatusOr<Condition> ParseObject(const FieldPath& field, const Json& json);
  bool HoldsFor(const Json& value) const;
};

struct ItemFilter::Condition::Field {
  std::string name;
  Condition condition;
};

absl::StatusOr<ItemFilter::Condition> ItemFilter::Condition::ParseObject(const FieldPath& field,
                                                                         const Json& json) {
  Condition condition;
  condition.kind = Kind::kObject;
  for (const auto& [name, value] : json.items()) {
    MEMORYD_ASSIGN_OR_RETURN(Condition below, Parse(field, value));
    condition.fields.push_back({name, std::move(below)});
  }
  return condition;
}

absl::StatusOr<ItemFilter::Condition> ItemFilter::Condition::Parse(const FieldPath& field,
                                                                   const Json& json) {
  Condition condition;
  if (json.is_object() && !HasOperator(json)) return ParseObject(field, json);
  if (json.is_object()) {
    for (const auto& [name, operand] : json.items()) {
      MEMORYD_ASSIGN_OR_RETURN(Test test, ParseTest(field, name, operand));
      condition.tests.push_back(std::move(test));
    }
  } else if (json.is_array()) {
    condition.kind = Kind::kArray;
    for (const Json& element : json) {
      MEMORYD_ASSIGN_OR_RETURN(Condition below, Parse(field, element));
      condition.elements.push_back(std::move(below));
    }
  } else {
    condition.tests.push_back({Operator::kEq, json});
  }
  return condition;
}

bool ItemFilter::Condition::HoldsFor(const Json& value) const {
  switch (kind) {
    case Kind::kTests:
      return std::all_of(tests.begin(), tests.end(),
                         [&value](const Test& test) { return Holds(test, value); });
    case Kind::kObject:
      return value.is_object() &&
             std::all_of(fields.begin(), fields.end(), [&value](const Field& f) {
               static const Json kMissing;
               const auto found = value.find(f.name);
               return f.condition.HoldsFor(found == value.end() ? kMissing : *found);
             });
    case Kind::kArray:
      return value.is_array() && value.size() == elements.size() &&
             std::equal(
                 elements.begin(), elements.end(), value.begin(),
                 [](const Condition& c, const Json& element) { return c.HoldsFor(element); });
  }
  return false;
}

absl::StatusOr<ItemFilter> ItemFilter::Parse(const FieldPath& field, std::string_view json) {
  if (json.empty()) return ItemFilter();
  if (json.size() > kMaxFilterBytes) {
    return InvalidField(
        field, fmt::format("must be at most {} bytes; got {}", kMaxFilterBytes, json.size()));
  }
  JsonLimits limits;
  limits.max_depth = kMaxFilterDepth;
  limits.max_object_keys = limits.max_total_keys = kMaxFilterKeys;
  if (const absl::Status status = CheckJsonObject(json, limits); !status.ok()) {
    return InvalidField(field, std::string(status.message()));
  }
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return InvalidField(field, "must be a JSON object");
  if (HasOperator(parsed)) {
    return InvalidField(field, "must have fields of the value as its keys, not operators");
  }
  if (parsed.empty()) return ItemFilter();
  MEMORYD_ASSIGN_OR_RETURN(Condition root, Condition::ParseObject(field, parsed));
  return ItemFilter(std::make_shared<const Condition>(std::move(root)));
}

absl::StatusOr<bool> ItemFilter::Passes(const ItemContent& content) const {
  if (empty()) return true;
  if (content.kind != ItemValueKind::kJson) return false;
  const Json value = Json::parse(content.value, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return absl::DataLossError("an item's value can't be read back");
  return root_->HoldsFor(value);
}

}  // namespace memoryd
