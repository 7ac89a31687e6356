// Parameter types of several transforms, and parameters that other files read.
#pragma once

#include <vector>

#include "core/options/schema.h"

namespace tandem::datasets {

// A side for both, or [height, width], in pixels; 0: not given. Fractions are truncated.
struct Sides {
  double height = 0, width = 0;
};

// One value for all channels, or one per channel.
struct PerChannel {
  std::vector<double> values;
};

struct NormaliseOptions {
  PerChannel mean, stddev;  // empty: the data set's
};

}  // namespace tandem::datasets

template <>
struct tandem::options::Binding<tandem::datasets::Sides> {
  static Type type(const Rule& rule) {
    Type type = detail::ranged(Type::Kind::numbers, rule);
    type.max_count = 2;
    return type;
  }
  static void store(datasets::Sides& to, const Value& value) {
    const bool list = value.is(Value::Kind::list);
    to.height = list ? value.items.front().number : value.number;
    to.width = list ? value.items.back().number : value.number;
  }
  static Value load(const datasets::Sides& from) {
    return from.height == from.width ? Value(from.height) : Value(std::vector{from.height, from.width});
  }
};

template <>
struct tandem::options::Binding<tandem::datasets::PerChannel> {
  static Type type(const Rule& rule) {
    Type type = detail::ranged(Type::Kind::numbers, rule);
    type.max_count = 4096;
    return type;
  }
  static void store(datasets::PerChannel& to, const Value& value) {
    to.values.clear();
    if (!value.is(Value::Kind::list)) to.values.push_back(value.number);
    for (const Value& item : value.items) to.values.push_back(item.number);
  }
  static Value load(const datasets::PerChannel& from) {
    return from.values.size() == 1 ? Value(from.values.front()) : Value(from.values);
  }
};
