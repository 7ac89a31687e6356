// Kinds of reductions over elements of compute type T: sum, product, extremum, position, logsumexp.
//
// A thread adds elements to a Local, which is converted to a State for combining between threads. kFlush is
// the number of terms per Local. Kinds with add_all add all elements of a pack together.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "core/cuda/numeric.h"
#include "core/cuda/rows.h"

namespace tandem::cuda {

template <class T>
struct SumOf {
  enum class Map { plain, squares, magnitudes };
  using Element = T;
  using Local = T;
  using State = Wide<T>;
  static constexpr int kFlush = std::is_same_v<T, float> ? 16 : kNeverFlush;

  Map map;
  double divisor;  // 1 unless the result is a mean

  __device__ __forceinline__ static Local local() { return T(0); }
  __device__ __forceinline__ static State none() { return State(0); }
  __device__ __forceinline__ void add(Local& held, T x, Index) const {
    held += map == Map::plain ? x : map == Map::squares ? x * x : x < T(0) ? -x : x;
  }
  __device__ __forceinline__ static State widen(Local held) { return static_cast<State>(held); }
  template <class A>
  __device__ __forceinline__ A operator()(A a, A b) const {
    return a + b;
  }
  __device__ __forceinline__ Wide<T> finish(State sum) const {
    if constexpr (std::is_integral_v<T>) {
      return sum;
    } else {
      return divisor == 1.0 ? sum : sum / divisor;
    }
  }
};

// A floating product as mantissa · 2^exponent with the mantissa in [½, 1), because partial products can
// overflow or underflow double where the result does not. Integers wrap around.
template <class T>
struct ProductOf {
  struct Scaled {
    double mantissa;
    Index exponent;
  };
  using Element = T;
  using State = std::conditional_t<std::is_integral_v<T>, Index, Scaled>;
  using Local = State;
  static constexpr int kFlush = kNeverFlush;

  __device__ __forceinline__ static State none() {
    if constexpr (std::is_integral_v<T>) {
      return 1;
    } else {
      return {1.0, 0};
    }
  }
  __device__ __forceinline__ static Local local() { return none(); }
  __device__ __forceinline__ void add(Local& held, T x, Index) const {
    if constexpr (std::is_integral_v<T>) {
      held *= x;
    } else {
      held = (*this)(held, normalised({static_cast<double>(x), 0}));
    }
  }
  __device__ __forceinline__ static State widen(Local held) { return held; }
  __device__ __forceinline__ State operator()(State a, State b) const {
    if constexpr (std::is_integral_v<T>) {
      return a * b;
    } else {
      return normalised({a.mantissa * b.mantissa, a.exponent + b.exponent});
    }
  }
  __device__ __forceinline__ Wide<T> finish(State product) const {
    if constexpr (std::is_integral_v<T>) {
      return product;
    } else {
      const Index e = product.exponent < -4000 ? -4000 : product.exponent > 4000 ? 4000 : product.exponent;
      return ::ldexp(product.mantissa, static_cast<int>(e));
    }
  }

 private:
  __device__ __forceinline__ static Scaled normalised(Scaled x) {
    if (!(::fabs(x.mantissa) < std::numeric_limits<double>::infinity())) return x;
    int exponent = 0;
    const double mantissa = ::frexp(x.mantissa, &exponent);
    return {mantissa, x.exponent + exponent};
  }
};

// Reverses the order of values; NaN stays NaN.
template <class T>
__device__ __forceinline__ T reversed(T x) {
  if constexpr (std::is_integral_v<T>) {
    return ~x;  // the lowest integer has no negative
  } else {
    return -x;
  }
}

template <class T>
__device__ __forceinline__ T lowest() {
  if constexpr (std::is_integral_v<T>) {
    return std::numeric_limits<T>::min();
  } else {
    return -std::numeric_limits<T>::infinity();
  }
}

// The largest key; NaN propagates. The smallest element has the largest reversed key.
template <class T>
struct ExtremumOf {
  enum class Key { value, reversed, magnitude };
  using Element = T;
  using Local = T;
  using State = T;
  static constexpr int kFlush = kNeverFlush;

  Key key;

  // The largest magnitude of an empty range is 0.
  __device__ __forceinline__ State none() const { return key == Key::magnitude ? T(0) : lowest<T>(); }
  __device__ __forceinline__ Local local() const { return none(); }
  __device__ __forceinline__ void add(Local& held, T x, Index) const {
    const T k = key == Key::value ? x : key == Key::reversed ? reversed(x) : x < T(0) ? -x : x;
    held = (*this)(held, k);
  }
  __device__ __forceinline__ static State widen(Local held) { return held; }
  __device__ __forceinline__ T operator()(T a, T b) const { return b > a || b != b ? b : a; }
  __device__ __forceinline__ Wide<T> finish(State best) const {
    return static_cast<Wide<T>>(key == Key::reversed ? reversed(best) : best);
  }
};

// The first position of the largest key; NaN is the largest.
template <class T>
struct PositionOf {
  struct Found {
    T key;
    Index at;  // -1: none yet
  };
  using Element = T;
  using Local = Found;
  using State = Found;
  static constexpr int kFlush = kNeverFlush;

  bool smallest;

  __device__ __forceinline__ static bool beats(T a, T b) { return b == b && (a > b || a != a); }
  __device__ __forceinline__ static State none() { return {lowest<T>(), -1}; }
  __device__ __forceinline__ static Local local() { return none(); }
  // A thread gets positions in ascending order.
  __device__ __forceinline__ void add(Local& held, T x, Index at) const {
    const T key = smallest ? reversed(x) : x;
    const bool better = held.at < 0 || beats(key, held.key);
    held.key = better ? key : held.key;
    held.at = better ? at : held.at;
  }
  __device__ __forceinline__ static State widen(Local held) { return held; }
  __device__ __forceinline__ State operator()(State a, State b) const {
    if (a.at < 0) return b;
    if (b.at < 0) return a;
    const bool second = beats(b.key, a.key) || (!beats(a.key, b.key) && b.at < a.at);
    return second ? b : a;
  }
  __device__ __forceinline__ Index finish(State found) const { return found.at; }
};

template <class T>
struct LogSumExpOf {
  using Element = T;
  using Local = ExpSum<T>;
  using State = ExpSum<T>;
  static constexpr int kFlush = kNeverFlush;

  __device__ __forceinline__ static State none() { return State::none(); }
  __device__ __forceinline__ static Local local() { return none(); }
  __device__ __forceinline__ void add(Local& held, T x, Index) const { held.add(x); }
  template <class S, int kCount>
  __device__ __forceinline__ void add_all(Local& held, const T (&x)[kCount]) const {
    held.template add_all<S>(x);
  }
  __device__ __forceinline__ static State widen(Local held) { return held; }
  __device__ __forceinline__ State operator()(State a, State b) const { return combined(a, b); }
  __device__ __forceinline__ double finish(State s) const {
    return static_cast<double>(s.top) + math::log(static_cast<double>(s.sum));
  }
};

}  // namespace tandem::cuda
