// Checks what options were given against their description, and says what is wrong in the user's terms.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "core/options/schema.h"

namespace tandem::options {

inline constexpr std::size_t kMaxProblems = 100;  // of one configuration; more would tell nobody anything

struct Problem {
  Origin origin;
  std::string path;  // "data.augment.0.size"
  std::string what;
  std::string alike = {};  // where `what` names a place: the same without it, to tell one mistake by

  // "config.json:12: data.batchsize: unknown key; did you mean data.batch_size? (integer ≥ 1)"
  std::string text() const;
};

// A line for each mistake, where it stands first; one that is made again in the same place of another item or
// key is counted there.
std::vector<std::string> listed(const std::vector<Problem>& problems);

// All problems, in the order of the file, but no more than kMaxProblems; empty when `root` can be bound. Keys
// that a lower layer gave for another "name", in a section of the whole too (momentum of an sgd below, adam
// above), are dropped, not reported; whole numbers of integers become integers (10.0, 1e6).
std::vector<Problem> validate(const Schema& schema, Value& root);

// The rules that `object`, of the schema, and the objects inside of it break.
struct Complaint {
  std::string path, what;  // "groups.0.match"
};
std::vector<Complaint> complaints(const Schema& schema, const void* object, const std::string& path = "");

// A wrong key or value among the options of what `where` names: "[sgd] momentum must lie in [0, 1), is 1.5".
class OptionError : public UserError {
 public:
  // At a place of a whole configuration: "[model.layers[3].kernel] expected an integer".
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

// Throws OptionError for the first number of `object` that is out of range, else the first rule it breaks:
// for structs that C++ has filled.
void require_sound(const std::string& where, const Schema& schema, const void* object);
// What C++ gave by name, checked and laid over the defaults. Throws OptionError.
Record bound(const std::string& where, const Schema& schema, const Given& given);

// A key below a schema, with its path, in which list items and map entries are written "[]" and "*".
struct ListedKey {
  std::string path;
  const Key* key;
  std::vector<std::string> only_for;  // the variants that have it, of its own object or of one around it
};
// All of them; what several variants of the whole describe alike at one path is listed once. With `variant`
// only those that this variant of the whole has.
std::vector<ListedKey> list_keys(const Schema& schema, const std::string& variant = "");

}  // namespace tandem::options
