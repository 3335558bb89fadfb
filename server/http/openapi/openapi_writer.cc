// Writes the OpenAPI description of the HTTP port, as the source file that the server links:
//   openapi_writer DESCRIPTOR_SET OUTPUT.cc
// The set has the comments of proto/ (protoc --include_source_info). An example that is no request
// of its method fails the build.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <cstddef>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

#include "server/http/openapi/openapi_document.h"

namespace {

namespace protobuf = google::protobuf;

// As adjacent literals, since compilers bound the length of one.
void WriteSource(std::ostream& out, std::string_view text) {
  constexpr std::size_t kPiece = 8 << 10;
  out << "#include \"server/http/openapi/openapi.h\"\n\nnamespace memoryd {\n\n"
         "const std::string_view kOpenApi =";
  for (std::size_t begin = 0; begin < text.size(); begin += kPiece) {
    out << "\n    R\"openapi(" << text.substr(begin, kPiece) << ")openapi\"";
  }
  out << ";\n\n}  // namespace memoryd\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: openapi_writer DESCRIPTOR_SET OUTPUT.cc\n";
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  protobuf::FileDescriptorSet set;
  if (!set.ParseFromIstream(&in)) {
    std::cerr << argv[1] << ": is no set of descriptors\n";
    return 1;
  }
  protobuf::DescriptorPool pool;
  memoryd::OpenApiDocument document;
  for (const protobuf::FileDescriptorProto& proto : set.file()) {
    const protobuf::FileDescriptor* const file = pool.BuildFile(proto);
    if (file == nullptr) {
      std::cerr << proto.name() << ": can't be built\n";
      return 1;
    }
    if (file->package() != "memoryd.v1") continue;
    for (int i = 0; i < file->service_count(); ++i) document.Add(*file->service(i));
  }
  if (!document.wrong_examples().empty()) {
    std::cerr << document.wrong_examples();
    return 1;
  }
  std::ofstream out(argv[2], std::ios::binary);
  WriteSource(out, document.Text());
  return out.flush() ? 0 : 1;
}
