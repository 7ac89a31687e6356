// Configuration of an entry of a registry.
#pragma once

#include "core/options/registry.h"

namespace tandem::datasets {

// The chosen entry with its own keys, and the keys of every entry; in short the entry's name.
template <auto kRegistry, class Common>
struct ChosenSet {
  options::Choice<kRegistry> set;
  Common common;

  static const options::Schema& schema() {
    static const options::Schema schema = options::Describe<ChosenSet>()
                                              .choice(&ChosenSet::set)
                                              .include(&ChosenSet::common)
                                              .options_of(&ChosenSet::set)
                                              .short_key("name");
    return schema;
  }
};

}  // namespace tandem::datasets
