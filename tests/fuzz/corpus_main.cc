// Runs a fuzz target over a corpus, each file as it is and with a few hundred changes, always the
// same ones: an ordinary test where there is no libFuzzer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kChanges = 500;

void Run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

// One to four bytes replaced, flipped, inserted or removed, or the rest cut off.
std::string Changed(std::string bytes, std::mt19937& generator) {
  for (std::mt19937::result_type left = 1 + generator() % 4; left > 0; --left) {
    const std::size_t at = bytes.empty() ? 0 : generator() % bytes.size();
    const char value = static_cast<char>(generator() & 0xFF);
    switch (bytes.empty() ? 2 : generator() % 5) {
      case 0:
        bytes[at] = value;
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (generator() % 8)));
        break;
      case 2:
        bytes.insert(at, 1, value);
        break;
      case 3:
        bytes.erase(at, 1 + generator() % 4);
        break;
      default:
        bytes.resize(at);
        break;
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  if (files.empty()) {
    std::fprintf(stderr, "usage: %s FOLDER...: no files there\n", argv[0]);
    return 2;
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    std::printf("%s\n", file.filename().c_str());
    std::fflush(stdout);  // So that a crash leaves the file's name.
    Run(bytes);
    std::mt19937 generator(static_cast<unsigned>(bytes.size()));
    for (int i = 0; i < kChanges; ++i) Run(Changed(bytes, generator));
  }
  std::printf("%zu files, %d changes of each\n", files.size(), kChanges);
  return 0;
}
