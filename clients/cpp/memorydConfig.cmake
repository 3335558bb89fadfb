# find_package(memoryd) gives memoryd::client, memoryd::client_fake and memoryd::proto.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
# As where it was built: Debian ships protobuf without a CMake package.
find_dependency(Protobuf MODULE)
find_dependency(absl CONFIG)
find_dependency(gRPC CONFIG)
include(${CMAKE_CURRENT_LIST_DIR}/memorydTargets.cmake)
