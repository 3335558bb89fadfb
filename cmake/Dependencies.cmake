# Every dependency is found here, and only here is a difference between Debian 12 and 13 dealt with.
# Targets that the rest of the build may name:
#   protobuf::libprotobuf gRPC::grpc++ PkgConfig::nghttp2 Boost::headers PkgConfig::libpqxx PkgConfig::libpq
#   SQLite::SQLite3 absl::* fmt::fmt spdlog::spdlog yaml-cpp CLI11::CLI11 nlohmann_json::nlohmann_json
#   OpenSSL::Crypto OpenSSL::SSL CURL::libcurl prometheus-cpp::core PkgConfig::utf8proc
#   cjose::cjose PkgConfig::jemalloc ZLIB::ZLIB Stemmer::stemmer Threads::Threads GTest::gmock
# and, where MEMORYD_WITH_OPENTELEMETRY is set, opentelemetry-cpp::otlp_http_exporter opentelemetry-cpp::trace

find_package(Threads REQUIRED)
# Both Debians ship protobuf without its CMake package; the find module gives the same targets. Debian
# experimental has it, and its gRPC asks for it.
find_package(Protobuf CONFIG QUIET)
if(NOT Protobuf_FOUND)
  find_package(Protobuf MODULE REQUIRED)
endif()
find_package(absl CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(CURL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)

# libpqxx 6.4 (Debian 12) has no CMake package, 7.10 (Debian 13) has one under another name;
# pkg-config knows both. FindPostgreSQL would ask for server headers that a client need not have.
find_package(PkgConfig REQUIRED)
pkg_check_modules(libpqxx REQUIRED IMPORTED_TARGET GLOBAL libpqxx)
pkg_check_modules(libpq REQUIRED IMPORTED_TARGET GLOBAL libpq)
pkg_check_modules(jemalloc REQUIRED IMPORTED_TARGET GLOBAL jemalloc)
pkg_check_modules(nghttp2 REQUIRED IMPORTED_TARGET GLOBAL libnghttp2)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET GLOBAL libutf8proc)

# libstemmer comes with neither.
find_path(STEMMER_INCLUDE_DIR libstemmer.h REQUIRED)
find_library(STEMMER_LIBRARY stemmer REQUIRED)
add_library(Stemmer::stemmer UNKNOWN IMPORTED GLOBAL)
set_target_properties(Stemmer::stemmer PROPERTIES
  IMPORTED_LOCATION ${STEMMER_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${STEMMER_INCLUDE_DIR})
mark_as_advanced(STEMMER_INCLUDE_DIR STEMMER_LIBRARY)

# cjose's pkg-config file asks for that of jansson, which only libjansson-dev has; its headers don't.
find_path(CJOSE_INCLUDE_DIR cjose/cjose.h REQUIRED)
find_library(CJOSE_LIBRARY cjose REQUIRED)
add_library(cjose::cjose UNKNOWN IMPORTED GLOBAL)
set_target_properties(cjose::cjose PROPERTIES
  IMPORTED_LOCATION ${CJOSE_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${CJOSE_INCLUDE_DIR}
  INTERFACE_LINK_LIBRARIES OpenSSL::Crypto)
mark_as_advanced(CJOSE_INCLUDE_DIR CJOSE_LIBRARY)

# yaml-cpp 0.8 (Debian 13) renamed its target.
if(NOT TARGET yaml-cpp AND TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp ALIAS yaml-cpp::yaml-cpp)
endif()

# Debian 12 has none.
set(MEMORYD_OPENTELEMETRY AUTO CACHE STRING "Export of spans by opentelemetry-cpp: AUTO (where it is found), ON, OFF")
set_property(CACHE MEMORYD_OPENTELEMETRY PROPERTY STRINGS AUTO ON OFF)
set(MEMORYD_WITH_OPENTELEMETRY OFF)
if(MEMORYD_OPENTELEMETRY)
  # Asked for a version, it takes that one exactly.
  find_package(opentelemetry-cpp CONFIG QUIET)
  if(opentelemetry-cpp_VERSION VERSION_GREATER_EQUAL 1.19 AND TARGET opentelemetry-cpp::otlp_http_exporter)
    set(MEMORYD_WITH_OPENTELEMETRY ON)
  elseif(NOT MEMORYD_OPENTELEMETRY STREQUAL "AUTO")
    message(FATAL_ERROR "MEMORYD_OPENTELEMETRY is ${MEMORYD_OPENTELEMETRY}, and there is no "
      "opentelemetry-cpp 1.19 or newer with OTLP over HTTP")
  endif()
endif()
message(STATUS "OpenTelemetry: ${MEMORYD_WITH_OPENTELEMETRY} (MEMORYD_OPENTELEMETRY=${MEMORYD_OPENTELEMETRY})")

if(BUILD_TESTING)
  find_package(GTest CONFIG REQUIRED)
endif()
