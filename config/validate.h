// Checks a Value against a Schema and says what is wrong in the user's terms.
#pragma once

#include <string>
#include <vector>

#include "config/schema.h"

namespace tandem::config {

inline constexpr std::size_t kMaxProblems = 100;  // of one configuration; more would tell nobody anything

struct Problem {
  Origin origin;
  std::string path;  // "data.augment.0.size"
  std::string what;

  // "config.json:12: data.batchsize: unknown key; did you mean data.batch_size? (integer ≥ 1)"
  std::string text() const;
};

// A line for each mistake, where it stands first; one that is made again in the same place of another item or
// key is counted there.
std::vector<std::string> listed(const std::vector<Problem>& problems);

// All problems, in the order of the file, but no more than kMaxProblems; empty when `root` can be bound. Keys
// that a lower layer gave for another "name" (momentum of an sgd below, adam above) are dropped from `root`,
// not reported; whole numbers of keys that hold integers become integers (10.0, 1e6).
std::vector<Problem> validate(const Schema& schema, Value& root);

// Every key below a schema, with its path; list items and map entries are written "[]" and "*".
struct ListedKey {
  std::string path;
  const Key* key;
};
std::vector<ListedKey> list_keys(const Schema& schema, const std::string& path = "");

}  // namespace tandem::config
