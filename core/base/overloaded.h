// A visitor for std::visit, made of lambdas.
#ifndef MEMORYD_CORE_BASE_OVERLOADED_H_
#define MEMORYD_CORE_BASE_OVERLOADED_H_

namespace memoryd {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_OVERLOADED_H_
