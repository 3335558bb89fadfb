#ifndef MEMORYD_CORE_BASE_RARE_H_
#define MEMORYD_CORE_BASE_RARE_H_

#include <memory>
#include <utility>

namespace memoryd {

// A T that is mostly a default-constructed one and takes a pointer's place then. Copies are deep.
template <typename T>
class Rare {
 public:
  Rare() = default;
  Rare(T value) { *this = std::move(value); }  // NOLINT(google-explicit-constructor): is a T.
  Rare(const Rare& other) : Rare(*other) {}
  Rare(Rare&&) noexcept = default;
  ~Rare() = default;
  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): the copy is made first.
  Rare& operator=(const Rare& other) { return *this = Rare(other); }
  Rare& operator=(Rare&&) noexcept = default;
  Rare& operator=(T value) {
    value_ = value == T() ? nullptr : std::make_unique<T>(std::move(value));
    return *this;
  }

  const T& operator*() const {
    static const T kDefault{};
    return value_ == nullptr ? kDefault : *value_;
  }
  const T* operator->() const { return &**this; }
  // To be changed in place.
  T& value() {
    if (value_ == nullptr) value_ = std::make_unique<T>();
    return *value_;
  }

  friend bool operator==(const Rare& a, const Rare& b) { return *a == *b; }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_RARE_H_
