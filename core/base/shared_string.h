// A string that may be megabytes and is copied with what it belongs to.
#ifndef MEMORYD_CORE_BASE_SHARED_STRING_H_
#define MEMORYD_CORE_BASE_SHARED_STRING_H_

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace memoryd {

// Immutable; copies share the bytes. Threads may use different copies at the same time.
class SharedString {
 public:
  SharedString() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): as any string.
  SharedString(std::string text)
      : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}
  // NOLINTNEXTLINE(google-explicit-constructor): as any string.
  SharedString(const char* text) : SharedString(std::string(text)) {}

  // NOLINTNEXTLINE(google-explicit-constructor): as any string.
  operator std::string_view() const {
    return text_ == nullptr ? std::string_view() : std::string_view(*text_);
  }
  std::size_t size() const { return text_ == nullptr ? 0 : text_->size(); }
  bool empty() const { return text_ == nullptr; }

  friend bool operator==(const SharedString& a, const SharedString& b) {
    return a.text_ == b.text_ || std::string_view(a) == std::string_view(b);
  }
  friend std::ostream& operator<<(std::ostream& out, const SharedString& text) {
    return out << std::string_view(text);
  }

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_SHARED_STRING_H_
