// One step of the recurrent cells of core/kernels/rnn.h, for host and device. `a` is the input's part of the
// gates, `q` the hidden state's, in the order of the gates.
#pragma once

#include "core/kernels/math.h"
#include "core/op_options.h"

namespace tandem::rnn {

// One value per gate.
template <class T>
struct Gates {
  T value[4];
  TANDEM_HD T operator[](int i) const { return value[i]; }
};

// Values saved for backward besides h: activated gates, and the state named `states` in host_reserve.
template <class T>
struct Kept {
  T gate[4];
  T state;
};

template <class T>
struct Step {
  Kept<T> kept;
  T y;  // h, or the input of its projection
};

template <class T>
struct Gradients {
  T a[4];   // gradient of the input part, before activation
  T q;      // gru: gradient of the recurrent part of n, which differs from a[2]
  T state;  // lstm: gradient of c before the step
  T h;      // gru: gradient of h before the step that bypasses the product
};

struct Lstm {
  static constexpr int kGates = 4;
  static constexpr bool kKeepsGates = true, kCellState = true, kSeparateQ = false;

  // state: c before the step, h is not read; y: o⊙tanh c.
  template <class T>
  TANDEM_HD static Step<T> forward(const Gates<T>& a, const Gates<T>& q, T state) {
    const T i = math::sigmoid(a[0] + q[0]), f = math::sigmoid(a[1] + q[1]), g = math::tanh(a[2] + q[2]),
            o = math::sigmoid(a[3] + q[3]);
    const T c = f * state + i * g;
    return {{{i, f, g, o}, c}, output(o, c)};
  }
  template <class T>
  TANDEM_HD static T output(T o, T c) {
    return o * math::tanh(c);
  }
  // dy: gradient of o⊙tanh c. before: c before the step; dstate: gradient of c after it, from later steps.
  template <class T>
  TANDEM_HD static Gradients<T> backward(const Kept<T>& kept, T before, T dy, T dstate) {
    const T i = kept.gate[0], f = kept.gate[1], g = kept.gate[2], o = kept.gate[3];
    const T bent = math::tanh(kept.state);
    const T dc = dstate + dy * o * (T(1) - bent * bent);
    return {{dc * g * i * (T(1) - i), dc * before * f * (T(1) - f), dc * i * (T(1) - g * g),
             dy * bent * o * (T(1) - o)},
            T(0),
            dc * f,
            T(0)};
  }
};

struct Gru {
  static constexpr int kGates = 3;
  static constexpr bool kKeepsGates = true, kCellState = false, kSeparateQ = true;

  // state: h before the step on entry, q of n on return.
  template <class T>
  TANDEM_HD static Step<T> forward(const Gates<T>& a, const Gates<T>& q, T state) {
    const T r = math::sigmoid(a[0] + q[0]), z = math::sigmoid(a[1] + q[1]), n = math::tanh(a[2] + r * q[2]);
    return {{{r, z, n, T(0)}, q[2]}, (T(1) - z) * n + z * state};
  }
  // before: h before the step.
  template <class T>
  TANDEM_HD static Gradients<T> backward(const Kept<T>& kept, T before, T dy, T /*dstate*/) {
    const T r = kept.gate[0], z = kept.gate[1], n = kept.gate[2];
    const T dn = dy * (T(1) - z) * (T(1) - n * n);
    return {{dn * kept.state * r * (T(1) - r), dy * (before - n) * z * (T(1) - z), dn, T(0)},
            dn * r,
            T(0),
            dy * z};
  }
};

template <bool Relu>
struct Plain {
  static constexpr int kGates = 1;
  static constexpr bool kKeepsGates = false, kCellState = false, kSeparateQ = false;

  template <class T>
  TANDEM_HD static Step<T> forward(const Gates<T>& a, const Gates<T>& q, T /*state*/) {
    const T sum = a[0] + q[0];
    return {{}, Relu ? (sum > T(0) || sum != sum ? sum : T(0)) : math::tanh(sum)};
  }
  // kept.state: h after the step.
  template <class T>
  TANDEM_HD static Gradients<T> backward(const Kept<T>& kept, T /*before*/, T dy, T /*dstate*/) {
    const T h = kept.state;
    return {{Relu ? (h > T(0) ? dy : T(0)) : dy * (T(1) - h * h), T(0), T(0), T(0)}, T(0), T(0), T(0)};
  }
};

// Calls visit.operator()<Cell>().
template <class Visitor>
auto visit_cell(RnnCell cell, Visitor&& visit) {
  switch (cell) {
    case RnnCell::lstm:
      return visit.template operator()<Lstm>();
    case RnnCell::gru:
      return visit.template operator()<Gru>();
    case RnnCell::rnn_tanh:
      return visit.template operator()<Plain<false>>();
    default:
      return visit.template operator()<Plain<true>>();
  }
}

}  // namespace tandem::rnn
