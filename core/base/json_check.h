// A strict reader of JSON that is stored as text: it checks, and may tell what it sees.
#ifndef MEMORYD_CORE_BASE_JSON_CHECK_H_
#define MEMORYD_CORE_BASE_JSON_CHECK_H_

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace memoryd {

// What a document may hold beyond being JSON (RFC 8259, UTF-8). The defaults are those of the wire.
struct JsonLimits {
  bool any_value = false;      // Else the document is an object.
  std::size_t max_depth = 64;  // Objects and arrays around a value.
  std::size_t max_object_keys = 1000;
  std::size_t max_total_keys = 10'000;
  std::size_t max_key_bytes = 1024;      // After escapes are decoded.
  std::size_t max_integer_digits = 400;  // Integers may be too large for a double, floats not.
};

// Told what ReadJson reads, in the document's order. Views are valid during the call.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;

  virtual void OnNull() = 0;
  virtual void OnBool(bool value) = 0;
  // The digits as written, with a sign if there is one.
  virtual void OnInteger(std::string_view literal) = 0;
  // A number written with a fraction or an exponent.
  virtual void OnFloat(double value) = 0;
  // Escapes are decoded: UTF-8.
  virtual void OnString(std::string_view value) = 0;
  virtual void OnKey(std::string_view key) = 0;
  virtual void OnBeginObject() = 0;
  virtual void OnEndObject() = 0;
  virtual void OnBeginArray() = 0;
  virtual void OnEndArray() = 0;
};

// Reads `json` to its end and tells `visitor`. InvalidArgument with the reason and the byte where
// it lies, after which the visitor has seen what came before, for text that is not strict JSON or
// breaks a limit; also for a key that an object has twice, half a surrogate pair, U+0000, and a
// float outside the range of a double (too small is 0). Memory grows with the nesting and the keys
// of the objects being read; there is no recursion.
absl::Status ReadJson(std::string_view json, const JsonLimits& limits, JsonVisitor& visitor);

// What ReadJson says of `json`.
absl::Status CheckJsonObject(std::string_view json, const JsonLimits& limits = {});

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_JSON_CHECK_H_
