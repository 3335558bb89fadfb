// The options of a block, as they are read.
#ifndef MEMORYD_CORE_BLOCKS_BLOCK_OPTIONS_H_
#define MEMORYD_CORE_BLOCKS_BLOCK_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd {

// Each method reads one option, or gives `fallback` when it is absent or null. The first error is
// kept for Finish().
class BlockOptions {
 public:
  // `field` is named in errors, such as "config.blocks[3].options_json".
  BlockOptions(std::string field, std::string_view json);

  std::int64_t Integer(std::string_view name, std::int64_t fallback, std::int64_t lowest,
                       std::int64_t highest);
  std::optional<double> Number(std::string_view name, double lowest, double highest);
  bool Bool(std::string_view name, bool fallback);
  std::string Text(std::string_view name, std::string_view fallback);
  // Must be there, and not empty.
  std::string RequiredText(std::string_view name);
  // A text in which one of `names` stands, exactly once, in braces.
  std::string Template(std::string_view name, std::string_view fallback,
                       std::vector<std::string_view> names);
  std::vector<std::string> Texts(std::string_view name);
  // An object of texts, numbers, booleans and nulls.
  nlohmann::json Scalars(std::string_view name);

  // Whether any option may be a text that is said, or that models are told: of those that are not
  // known to name something else, every string. True also where the options can't be read.
  // `but_for` is not looked at.
  bool HasTexts(std::optional<std::string_view> but_for = std::nullopt) const;

  // INVALID_ARGUMENT that names the field and the option: what the methods above refused, or an
  // option that none of them asked for.
  absl::Status Finish() const;

 private:
  // Null when absent.
  const nlohmann::json* Find(std::string_view name);
  void Refuse(std::string_view name, std::string_view reason);

  const std::string field_;
  nlohmann::json options_ = nlohmann::json::object();
  std::set<std::string, std::less<>> known_;
  absl::Status status_;
  bool is_readable_ = true;
};

// The most bytes of a text among the options.
inline constexpr std::size_t kMaxOptionText = std::size_t{64} << 10;

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_BLOCK_OPTIONS_H_
