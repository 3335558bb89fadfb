// Any bytes as JSON, beside nlohmann's parser: what we take is the same value there, what we alone
// refuse breaks a rule that is ours, and Python's repr of it is text.
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/json_check.h"
#include "core/base/utf8_decode.h"
#include "core/tokens/python_repr.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

using Json = nlohmann::ordered_json;

// The value that a visitor is told of.
class Builder final : public JsonVisitor {
 public:
  const Json& value() const { return root_; }
  // Whether an integer is too large even for a double, which nlohmann's parser refuses.
  bool has_huge_integer() const { return has_huge_integer_; }

  void OnNull() override { Add(nullptr); }
  void OnBool(bool value) override { Add(value); }
  void OnInteger(std::string_view literal) override {
    const char* const end = literal.data() + literal.size();
    std::uint64_t natural = 0;
    std::int64_t integer = 0;
    double large = 0;
    if (std::from_chars(literal.data(), end, natural).ec == std::errc()) {
      Add(natural);
    } else if (std::from_chars(literal.data(), end, integer).ec == std::errc()) {
      Add(integer);
    } else {
      has_huge_integer_ |= std::from_chars(literal.data(), end, large).ec != std::errc();
      Add(large);
    }
  }
  void OnFloat(double value) override { Add(value); }
  void OnString(std::string_view value) override { Add(std::string(value)); }
  void OnKey(std::string_view key) override { key_ = key; }
  void OnBeginObject() override { open_.push_back(&Add(Json::object())); }
  void OnEndObject() override { open_.pop_back(); }
  void OnBeginArray() override { open_.push_back(&Add(Json::array())); }
  void OnEndArray() override { open_.pop_back(); }

 private:
  // Containers that are open do not move: what is added goes into the innermost.
  Json& Add(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& container = *open_.back();
    if (container.is_array()) return container.emplace_back(std::move(value));
    return container[key_] = std::move(value);
  }

  Json root_;
  std::string key_;
  std::vector<Json*> open_;
  bool has_huge_integer_ = false;
};

// Whether a refusal is for what RFC 8259 allows.
bool IsOwnRule(std::string_view reason) {
  for (const std::string_view own : {"has a key twice", "U+0000 in a string", "nested deeper than",
                                     "more than", "longer than"}) {
    if (reason.find(own) != std::string_view::npos) return true;
  }
  return false;
}

void Run(std::string_view text) {
  Builder builder;
  const absl::Status status = ReadJson(text, JsonLimits{.any_value = true}, builder);
  // There a byte order mark is skipped, and U+0000 ends the document.
  const bool is_theirs_alone =
      text.starts_with("\xEF\xBB\xBF") || text.find('\0') != std::string_view::npos;
  const Json theirs = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (status.ok()) {
    Require(theirs.is_discarded() ? builder.has_huge_integer() : theirs == builder.value());
  } else {
    Require(absl::IsInvalidArgument(status));
    Require(theirs.is_discarded() || is_theirs_alone || IsOwnRule(std::string(status.message())));
  }
  const bool is_object = status.ok() && builder.value().is_object();
  Require(CheckJsonObject(text).ok() == is_object);

  const absl::StatusOr<std::string> repr = PythonRepr(text);
  Require(repr.ok() == status.ok());
  if (!repr.ok()) return;
  Require(repr->size() <= 6 * text.size() && IsUtf8(*repr));
  // On one line, but for a string that is the whole document.
  Require(builder.value().is_string() || repr->find('\n') == std::string::npos);
}

}  // namespace
}  // namespace memoryd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  memoryd::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
