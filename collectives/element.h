// One element of a vector of any type, as a double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"
#include "collectives/reduce_ops.h"

namespace nqd::collectives {

// Rounded to the type; whole numbers wrap in unsigned 8-bit integers.
inline void store_element(std::byte* to, DType type, double value) {
  visit_type(type, [&]<typename T>(T) {
    T element{};
    if constexpr (std::is_same_v<typename AccumulateIn<T>::Type, T>) {
      element = std::is_same_v<T, std::uint8_t> ? static_cast<T>(static_cast<std::int64_t>(value))
                                                : static_cast<T>(value);
    } else {
      element = AccumulateIn<T>::narrow(static_cast<float>(value));
    }
    std::memcpy(to, &element, sizeof element);
  });
}

inline double load_element(const std::byte* from, DType type) {
  return visit_type(type, [&]<typename T>(T) {
    T element{};
    std::memcpy(&element, from, sizeof element);
    return static_cast<double>(AccumulateIn<T>::widen(element));
  });
}

}  // namespace nqd::collectives
