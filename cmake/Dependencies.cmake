# Every dependency is found here, and only here is a difference between Debian 12 and 13 dealt with.
# Targets that the rest of the build may name:
#   protobuf::libprotobuf gRPC::grpc++ gRPC::grpc++_reflection PkgConfig::libpqxx PkgConfig::libpq
#   SQLite::SQLite3 absl::* fmt::fmt spdlog::spdlog yaml-cpp CLI11::CLI11 nlohmann_json::nlohmann_json
#   OpenSSL::Crypto Threads::Threads GTest::gmock

find_package(Threads REQUIRED)
# Both Debians ship protobuf without its CMake package; the find module gives the same targets.
find_package(Protobuf MODULE REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

# libpqxx 6.4 (Debian 12) has no CMake package, 7.10 (Debian 13) has one under another name;
# pkg-config knows both. FindPostgreSQL would ask for server headers that a client need not have.
find_package(PkgConfig REQUIRED)
pkg_check_modules(libpqxx REQUIRED IMPORTED_TARGET GLOBAL libpqxx)
pkg_check_modules(libpq REQUIRED IMPORTED_TARGET GLOBAL libpq)

# yaml-cpp 0.8 (Debian 13) renamed its target.
if(NOT TARGET yaml-cpp AND TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp ALIAS yaml-cpp::yaml-cpp)
endif()

if(BUILD_TESTING)
  find_package(GTest CONFIG REQUIRED)
endif()
