// Where a field stands in its request, for errors that name it.
#ifndef MEMORYD_CORE_BASE_FIELD_PATH_H_
#define MEMORYD_CORE_BASE_FIELD_PATH_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/base/attributes.h"

namespace memoryd {

// A path such as `messages[3].parts[0].text`. It is written out only by ToString(), since nearly
// all checks find nothing; until then it is a few words on the stack. A path refers to its name and
// to the path above it, so both outlive it. Functions take it by reference and keep none.
class FieldPath {
 public:
  // The request itself: what is below it begins with its own name.
  FieldPath() = default;

  // A field of the request, or a path that is written out already. Implicit, so that functions
  // that take a path also take its text.
  // NOLINTBEGIN(google-explicit-constructor)
  FieldPath(std::string_view name ABSL_ATTRIBUTE_LIFETIME_BOUND) : name_(name) {}
  FieldPath(const char* name ABSL_ATTRIBUTE_LIFETIME_BOUND) : name_(name) {}
  FieldPath(const std::string& name ABSL_ATTRIBUTE_LIFETIME_BOUND) : name_(name) {}
  // NOLINTEND(google-explicit-constructor)

  // An element of a field of the request, `messages[3]`. `index` counts from 0.
  FieldPath(std::string_view name ABSL_ATTRIBUTE_LIFETIME_BOUND, std::int64_t index)
      : name_(name), index_(index) {}

  FieldPath(const FieldPath&) = delete;
  FieldPath& operator=(const FieldPath&) = delete;

  // A field of the message at this path. Several steps may stand in `name`: `tool_call.name`.
  FieldPath Field(std::string_view name ABSL_ATTRIBUTE_LIFETIME_BOUND) const& {
    return FieldPath(this, name, kNoIndex);
  }
  // An element of a field of the message at this path.
  FieldPath Element(std::string_view name ABSL_ATTRIBUTE_LIFETIME_BOUND,
                    std::int64_t index) const& {
    return FieldPath(this, name, index);
  }
  // A temporary is gone before the path below it.
  FieldPath Field(std::string_view name) const&& = delete;
  FieldPath Element(std::string_view name, std::int64_t index) const&& = delete;

  bool IsRequest() const { return above_ == nullptr && name_.empty(); }

  // Empty for the request itself.
  std::string ToString() const;

 private:
  static constexpr std::int64_t kNoIndex = -1;

  FieldPath(const FieldPath* above, std::string_view name, std::int64_t index)
      : above_(above), name_(name), index_(index) {}

  const FieldPath* const above_ = nullptr;  // Null: the request.
  const std::string_view name_{};
  const std::int64_t index_ = kNoIndex;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_FIELD_PATH_H_
