#include "core/items/item_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <compare>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/json_check.h"
#include "core/base/status_macros.h"
#include "core/items/item.h"
#include "core/items/item_rules.h"

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

// Values of which `json` consists.
std::size_t CountValues(const Json& json) {
  std::size_t count = 1;
  if (!json.is_structured()) return count;
  for (const Json& below : json) count += CountValues(below);
  return count;
}

Json ParseInteger(std::string_view literal) {
  const char* const end = literal.data() + literal.size();
  std::int64_t number = 0;
  if (std::from_chars(literal.data(), end, number).ec == std::errc()) return number;
  std::uint64_t large = 0;
  if (std::from_chars(literal.data(), end, large).ec == std::errc()) return large;
  // Infinite where no double is as large.
  return std::strtod(std::string(literal).c_str(), nullptr);
}

}  // namespace

// What a value must be. Exactly one of the three kinds.
struct ItemFilter::Condition {
  enum class Kind { kTests, kObject, kArray };

  struct Field;

  Kind kind = Kind::kTests;
  std::vector<Test> tests;          // kTests: all hold.
  std::vector<Field> fields;        // kObject: it is an object, and all of these hold. Ascending.
  std::vector<Condition> elements;  // kArray: it is an array of as many, which hold in turn.
  // kTests: a value that consists of more values than this equals no operand.
  std::size_t most_values = 0;

  static absl::StatusOr<Condition> Parse(const FieldPath& field, const Json& json);
  static absl::StatusOr<Condition> ParseObject(const FieldPath& field, const Json& json);
  // kObject: the condition on this field; null where there is none.
  const Condition* Find(std::string_view name) const;
  bool HoldsFor(const Json& value) const;

 private:
  void AddTest(Test test) {
    most_values = std::max(most_values, CountValues(test.operand));
    tests.push_back(std::move(test));
  }
};

struct ItemFilter::Condition::Field {
  std::string name;
  Condition condition;
};

const ItemFilter::Condition* ItemFilter::Condition::Find(std::string_view name) const {
  const auto found =
      std::lower_bound(fields.begin(), fields.end(), name,
                       [](const Field& field, std::string_view key) { return field.name < key; });
  return found == fields.end() || found->name != name ? nullptr : &found->condition;
}

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
      condition.AddTest(std::move(test));
    }
  } else if (json.is_array()) {
    condition.kind = Kind::kArray;
    for (const Json& element : json) {
      MEMORYD_ASSIGN_OR_RETURN(Condition below, Parse(field, element));
      condition.elements.push_back(std::move(below));
    }
  } else {
    condition.AddTest({Operator::kEq, json});
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

// Keeps of a value what a condition looks at. As a tree, a value of 32 MiB may take 1 GiB; what is
// kept consists of about as many values as the filter, whose texts have no more bytes than the
// value. The condition holds for it exactly if it holds for the whole value.
class ItemFilter::Excerpt final : public JsonVisitor {
 public:
  explicit Excerpt(const Condition& root) : root_(root) {}

  // The value, once it is read.
  const Json& value() const { return value_; }

  void OnNull() override { Keep(nullptr); }
  void OnBool(bool value) override { Keep(value); }
  void OnInteger(std::string_view literal) override {
    if (Json* const place = Place()) *place = ParseInteger(literal);
  }
  void OnFloat(double value) override { Keep(value); }
  void OnString(std::string_view value) override {
    if (Json* const place = Place()) *place = std::string(value);
  }
  void OnKey(std::string_view key) override {
    if (skipped_ == 0) key_ = key;
  }
  void OnBeginObject() override { Begin(Condition::Kind::kObject, Json::value_t::object); }
  void OnEndObject() override { End(); }
  void OnBeginArray() override { Begin(Condition::Kind::kArray, Json::value_t::array); }
  void OnEndArray() override { End(); }

 private:
  // An object or array that is kept.
  struct Open {
    Json* json = nullptr;
    const Condition* condition = nullptr;
  };

  template <typename Value>
  void Keep(Value value) {
    if (Json* const place = Place()) *place = value;
  }

  // Where the next value is kept, null where no condition looks at it; condition_ is its own then.
  Json* Place() {
    if (skipped_ > 0) return nullptr;
    if (open_.empty()) {
      condition_ = &root_;
      return &value_;
    }
    const Open& in = open_.back();
    condition_ = in.condition;
    if (condition_->kind == Condition::Kind::kTests) {
      if (values_left_ == 0) return nullptr;
      --values_left_;
    } else if (condition_->kind == Condition::Kind::kObject) {
      condition_ = condition_->Find(key_);
      if (condition_ == nullptr) return nullptr;
    } else {
      // One more than there should be tells that there are too many.
      const std::size_t index = in.json->size();
      if (index > condition_->elements.size()) return nullptr;
      condition_ = index < condition_->elements.size() ? &condition_->elements[index] : nullptr;
    }
    return in.json->is_array() ? &in.json->emplace_back() : &(*in.json)[key_];
  }

  // A value of another type than its condition wants is kept as null, for which it does not hold.
  void Begin(Condition::Kind kind, Json::value_t type) {
    Json* const place = Place();
    const bool is_wanted =
        place != nullptr && condition_ != nullptr &&
        (condition_->kind == Condition::Kind::kTests || condition_->kind == kind);
    if (!is_wanted) {
      ++skipped_;
      return;
    }
    *place = Json(type);
    if (condition_->kind == Condition::Kind::kTests && tested_at_ == 0) {
      tested_at_ = open_.size() + 1;
      values_left_ = condition_->most_values;
    }
    open_.push_back({place, condition_});
  }

  void End() {
    if (skipped_ > 0) {
      --skipped_;
      return;
    }
    if (tested_at_ == open_.size()) tested_at_ = 0;
    open_.pop_back();
  }

  const Condition& root_;
  Json value_;
  std::vector<Open> open_;
  std::size_t skipped_ = 0;    // Objects and arrays that are open, and not kept.
  std::size_t tested_at_ = 0;  // How many are open with one that operands are compared with; or 0.
  std::size_t values_left_ = 0;  // To keep of that one.
  const Condition* condition_ = nullptr;
  std::string key_;
};

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
  if (!parsed.is_object())
    return InvalidField(field, "has a number that is too large for a double");
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
  Excerpt excerpt(*root_);
  if (!ReadJson(content.value, kItemJsonLimits, excerpt).ok()) {
    return absl::DataLossError("an item's value can't be read back");
  }
  return root_->HoldsFor(excerpt.value());
}

}  // namespace memoryd
