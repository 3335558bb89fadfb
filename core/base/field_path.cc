#include "core/base/field_path.h"

#include <string>

namespace memoryd {

std::string FieldPath::ToString() const {
  std::string path = above_ == nullptr ? std::string() : above_->ToString();
  if (!path.empty()) path.push_back('.');
  path.append(name_);
  if (index_ != kNoIndex) path.append("[").append(std::to_string(index_)).append("]");
  return path;
}

}  // namespace memoryd
