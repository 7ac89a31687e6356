// Validation of given options against their description, with messages in the user's terms.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "core/options/schema.h"

namespace tandem::options {

inline constexpr std::size_t kMaxProblems = 100;  // maximum reported mistakes of a configuration

struct Problem {
  Origin origin;
  std::string path;  // "data.augment.0.size"
  std::string what;
  std::string alike = {};  // `what` without a place in it, to recognise equal mistakes

  // "config.json:12: data.batchsize: unknown key; did you mean data.batch_size? (integer ≥ 1)"
  std::string text() const;
};

// One line per mistake, at its first place; repetitions in the same place of another item or key are counted
// there.
std::vector<std::string> listed(const std::vector<Problem>& problems);

// All problems in file order, at most kMaxProblems; empty when `root` can be bound. Drops keys that a lower
// layer gave for another "name", including in sections (momentum of an sgd below, adam above). Converts whole
// numbers of integer keys (10.0, 1e6).
std::vector<Problem> validate(const Schema& schema, Value& root);

// A rule broken by `object` or an object in it.
struct Complaint {
  std::string path, what;  // "groups.0.match"
};
std::vector<Complaint> complaints(const Schema& schema, const void* object, const std::string& path = "");

// A wrong key or value among the options of `where`: "[sgd] momentum must lie in [0, 1), is 1.5".
class OptionError : public UserError {
 public:
  // With a place in a whole configuration: "[model.layers[3].kernel] expected an integer".
  OptionError(std::string path, std::string detail)
      : UserError(path, detail), path_(std::move(path)), detail_(std::move(detail)) {}
  OptionError(const std::string& where, std::string path, std::string detail, const char* between = " ")
      : UserError(where, path.empty() ? detail : path + between + detail),
        path_(std::move(path)),
        detail_(std::move(detail)) {}
  const std::string& path() const { return path_; }      // "momentum"; "" for the whole
  const std::string& detail() const { return detail_; }  // "must lie in [0, 1), is 1.5"

 private:
  std::string path_, detail_;
};

// For structs filled by C++: throws OptionError for the first number of `object` that is out of range, else
// for the first broken rule.
void require_sound(const std::string& where, const Schema& schema, const void* object);
// Options given in C++, checked and merged with the defaults. Throws OptionError.
Record bound(const std::string& where, const Schema& schema, const Given& given);

// A key below a schema, with its path; list items and map entries are written "[]" and "*".
struct ListedKey {
  std::string path;
  const Key* key;
  std::vector<std::string> only_for;  // the variants that have it, of its own or an enclosing object
};
// All keys; a key that several variants describe alike at one path is listed once. With `variant`, only the
// keys of this variant of the whole.
std::vector<ListedKey> list_keys(const Schema& schema, const std::string& variant = "");

}  // namespace tandem::options
