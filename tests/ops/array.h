// Arrays of doubles with a shape, for the oracles of the op tests. Simple by design; of the library, they use
// only Shape.
#pragma once

#include <functional>
#include <vector>

#include "core/shape.h"

namespace tandem::test {

using Indices = std::vector<Index>;

struct Array {
  Shape shape;
  std::vector<double> values;

  Array() = default;
  explicit Array(const Shape& s, double fill = 0.0)
      : shape(s), values(static_cast<std::size_t>(s.numel()), fill) {}
  Array(const Shape& s, std::vector<double> v) : shape(s), values(std::move(v)) {}

  double& at(const Indices& indices) { return values[offset(indices)]; }
  double at(const Indices& indices) const { return values[offset(indices)]; }
  template <class... I>
  double& operator()(I... i) {
    return at({static_cast<Index>(i)...});
  }
  template <class... I>
  double operator()(I... i) const {
    return at({static_cast<Index>(i)...});
  }

 private:
  std::size_t offset(const Indices& indices) const {
    Index result = 0;
    for (std::size_t axis = 0; axis < indices.size(); ++axis)
      result = result * shape[static_cast<int>(axis)] + indices[axis];
    return static_cast<std::size_t>(result);
  }
};

using Arrays = std::vector<Array>;
using Oracle = std::function<Array(const Arrays&)>;

// Every index of a shape, in row-major order.
template <class Visit>
void for_each_index(const Shape& shape, Visit&& visit) {
  Indices indices(static_cast<std::size_t>(shape.rank()), 0);
  for (Index n = 0; n < shape.numel(); ++n) {
    visit(static_cast<const Indices&>(indices));
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (++indices[static_cast<std::size_t>(axis)] < shape[axis]) break;
      indices[static_cast<std::size_t>(axis)] = 0;
    }
  }
}

// The element of a broadcast array that a full index names.
inline double broadcast_at(const Array& array, const Indices& full) {
  Indices own;
  const std::size_t lead = full.size() - static_cast<std::size_t>(array.shape.rank());
  for (int axis = 0; axis < array.shape.rank(); ++axis)
    own.push_back(array.shape[axis] == 1 ? 0 : full[lead + static_cast<std::size_t>(axis)]);
  return array.at(own);
}

// f applied to each element, with NumPy broadcasting; f takes as many doubles as there are inputs.
template <class F>
Oracle each(F f) {
  return [f](const Arrays& x) {
    Shape shape = x[0].shape;
    for (const Array& input : x) shape = broadcast(shape, input.shape, "oracle");
    Array y(shape);
    for_each_index(shape, [&](const Indices& i) {
      if constexpr (std::is_invocable_v<F, double>) {
        y.at(i) = f(broadcast_at(x[0], i));
      } else if constexpr (std::is_invocable_v<F, double, double>) {
        y.at(i) = f(broadcast_at(x[0], i), broadcast_at(x[1], i));
      } else {
        y.at(i) = f(broadcast_at(x[0], i), broadcast_at(x[1], i), broadcast_at(x[2], i));
      }
    });
    return y;
  };
}

// y[to(i)] = x[i] for every index i of x.
template <class To>
Array moved(const Array& x, const Shape& shape, To&& to) {
  Array y(shape);
  for_each_index(x.shape, [&](const Indices& i) { y.at(to(i)) = x.at(i); });
  return y;
}

// y[i] = x[from(i)] for every index i of `shape`.
template <class From>
Array fetched(const Array& x, const Shape& shape, From&& from) {
  Array y(shape);
  for_each_index(shape, [&](const Indices& i) { y.at(i) = x.at(from(i)); });
  return y;
}

// f over the values along `axes` (all when empty; non-negative), in row-major order.
template <class F>
Array reduced(const Array& x, std::vector<int> axes, bool keep, F&& f) {
  if (axes.empty()) {
    for (int axis = 0; axis < x.shape.rank(); ++axis) axes.push_back(axis);
  }
  std::vector<bool> gone(static_cast<std::size_t>(x.shape.rank()), false);
  for (const int axis : axes) gone[static_cast<std::size_t>(axis)] = true;
  Indices kept_extents, all_extents;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const bool reduces = gone[static_cast<std::size_t>(axis)];
    all_extents.push_back(reduces ? 1 : x.shape[axis]);
    if (!reduces || keep) kept_extents.push_back(reduces ? 1 : x.shape[axis]);
  }
  const Shape grouped{std::span<const Index>(all_extents)};
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(grouped.numel()));
  Array group_of(grouped);
  for (std::size_t n = 0; n < groups.size(); ++n) group_of.values[n] = static_cast<double>(n);
  for_each_index(x.shape, [&](const Indices& i) {
    groups[static_cast<std::size_t>(broadcast_at(group_of, i))].push_back(x.at(i));
  });
  Array y{Shape(std::span<const Index>(kept_extents))};
  for (std::size_t n = 0; n < groups.size(); ++n) y.values[n] = f(groups[n]);
  return y;
}

// The adjoint of a linear function by its definition: dx_j = Σ_i dy_i·f(e_j)_i.
template <class Linear>
Array adjoint(Linear&& f, const Shape& x_shape, const Array& dy) {
  Array dx(x_shape);
  for (std::size_t j = 0; j < dx.values.size(); ++j) {
    Array unit(x_shape);
    unit.values[j] = 1.0;
    const Array column = f(unit);
    for (std::size_t i = 0; i < dy.values.size(); ++i) dx.values[j] += dy.values[i] * column.values[i];
  }
  return dx;
}

}  // namespace tandem::test
