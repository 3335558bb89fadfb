#include "cli/field_lines.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "cli/terminal_text.h"

namespace memoryd::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::TimeUtil;

constexpr int kIndent = 2;

void AppendFields(const Message& message, int indent, std::string& out);

// The value of `field`, of its element `index` where it is repeated, with what separates it from
// the name, and the end of the line.
std::string Value(const Message& message, const FieldDescriptor& field, int index, int indent) {
  const auto& reflection = *message.GetReflection();
  const bool repeated = field.is_repeated();
  // A field is read by one of two functions, with and without an index.
  const auto read = [&](auto single, auto one_of_many) {
    return repeated ? (reflection.*one_of_many)(message, &field, index)
                    : (reflection.*single)(message, &field);
  };
  using R = google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return fmt::format(" {}\n", read(&R::GetInt32, &R::GetRepeatedInt32));
    case FieldDescriptor::CPPTYPE_INT64:
      return fmt::format(" {}\n", read(&R::GetInt64, &R::GetRepeatedInt64));
    case FieldDescriptor::CPPTYPE_UINT32:
      return fmt::format(" {}\n", read(&R::GetUInt32, &R::GetRepeatedUInt32));
    case FieldDescriptor::CPPTYPE_UINT64:
      return fmt::format(" {}\n", read(&R::GetUInt64, &R::GetRepeatedUInt64));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return fmt::format(" {}\n", read(&R::GetDouble, &R::GetRepeatedDouble));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return fmt::format(" {}\n", read(&R::GetFloat, &R::GetRepeatedFloat));
    case FieldDescriptor::CPPTYPE_BOOL:
      return fmt::format(" {}\n", read(&R::GetBool, &R::GetRepeatedBool));
    case FieldDescriptor::CPPTYPE_ENUM:
      return fmt::format(" {}\n", read(&R::GetEnum, &R::GetRepeatedEnum)->name());
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = read(&R::GetString, &R::GetRepeatedString);
      if (field.type() == FieldDescriptor::TYPE_BYTES)
        return fmt::format(" {} bytes\n", text.size());
      return TextLines(text, indent);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  const Message& held = repeated ? reflection.GetRepeatedMessage(message, &field, index)
                                 : reflection.GetMessage(message, &field);
  if (const auto* time = dynamic_cast<const google::protobuf::Timestamp*>(&held)) {
    return fmt::format(" {}\n", TimeUtil::ToString(*time));
  }
  if (const auto* span = dynamic_cast<const google::protobuf::Duration*>(&held)) {
    return fmt::format(" {}\n", TimeUtil::ToString(*span));
  }
  std::string lines = "\n";
  AppendFields(held, indent + kIndent, lines);
  return lines;
}

bool IsTold(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  if (field.has_presence()) return reflection.HasField(message, &field);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_ENUM:
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.HasField(message, &field);
    default:
      return true;
  }
}

void AppendFields(const Message& message, int indent, std::string& out) {
  const auto& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const auto append = [&](int index) {
      out +=
          fmt::format("{:{}}{}:{}", "", indent, field.name(), Value(message, field, index, indent));
    };
    if (field.is_repeated()) {
      const int size = message.GetReflection()->FieldSize(message, &field);
      for (int index = 0; index < size; ++index) append(index);
    } else if (IsTold(message, field)) {
      append(0);
    }
  }
}

}  // namespace

std::string TextLines(std::string_view text, int indent) {
  if (text.find('\n') == std::string_view::npos) return " " + EscapeForTerminal(text) + "\n";
  std::string lines = "\n";
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines += fmt::format("{:{}}| {}\n", "", indent + kIndent,
                         EscapeForTerminal(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

std::string FieldLines(const Message& message) {
  std::string lines;
  AppendFields(message, 0, lines);
  return lines;
}

}  // namespace memoryd::cli
