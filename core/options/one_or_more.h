// A list option that also accepts a single item, and prints a single item alone.
#pragma once

#include <utility>
#include <vector>

#include "core/options/schema.h"

namespace tandem::options {

// As an option, [] is an error.
template <class T>
struct OneOrMore {
  std::vector<T> items{};

  OneOrMore() = default;
  OneOrMore(T item) { items.push_back(std::move(item)); }
  OneOrMore(std::vector<T> all) : items(std::move(all)) {}
};

template <class T>
struct Binding<OneOrMore<T>> {
  static Type type(const Rule& rule) {
    Type type = Binding<std::vector<T>>::type(rule);
    type.single = true;
    return type;
  }
  static void store(OneOrMore<T>& to, const Value& value) {
    if (value.is(Value::Kind::list)) {
      Binding<std::vector<T>>::store(to.items, value);
    } else {
      to.items.assign(1, T{});
      Binding<T>::store(to.items.front(), value);
    }
  }
  static Value load(const OneOrMore<T>& from) {
    return from.items.size() == 1 ? Binding<T>::load(from.items.front())
                                  : Binding<std::vector<T>>::load(from.items);
  }
};

}  // namespace tandem::options
