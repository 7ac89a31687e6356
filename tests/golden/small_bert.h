// The small BERT whose weights tests/golden/published.py and answers.py make, and its names in Hugging Face's
// library.
#pragma once

#include <string>
#include <vector>

#include "models/bert.h"

namespace tandem {

// Two layers with two heads; each test adds the heads of its model.
inline models::BertOptions small_bert() {
  return {.vocabulary = 11,
          .width = 8,
          .layers = 2,
          .heads = 2,
          .inner = 16,
          .context = 6,
          .dropout = 0.0,
          .attention_dropout = 0.0};
}

// Names of a parameter in the library, where a joined projection is three parameters.
inline std::vector<std::string> library_names(const std::string& name) {
  const std::string joined = "query_key_value";
  const std::size_t at = name.find(joined);
  if (at == std::string::npos) return {name};
  std::vector<std::string> names;
  for (const char* const part : {"query", "key", "value"})
    names.push_back(std::string(name).replace(at, joined.size(), part));
  return names;
}

}  // namespace tandem
