// A file descriptor that closes itself.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_DESCRIPTOR_H_
#define MEMORYD_CORE_STORAGE_SQLITE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace memoryd::sqlite {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_DESCRIPTOR_H_
