// The algorithms that a device was found to do things fastest with: a table that goes from one run to the
// next, as text.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

struct AlgorithmTable {
  struct Choice {
    std::string name;  // of the algorithm, in its library's words
    // What was timed, by name, of one run each, to four digits: what was chosen, and what stood beside it.
    std::vector<std::pair<std::string, float>> milliseconds;
    friend bool operator==(const Choice&, const Choice&) = default;
  };

  // Whose choices these are: they say nothing of another library or device.
  std::string library;                    // "cuDNN 9.19.0"
  std::string device;                     // "NVIDIA H100 80GB HBM3, 132 multiprocessors"
  std::map<std::string, Choice> choices;  // by what is done: op, types and shapes

  bool fits(const AlgorithmTable& other) const { return library == other.library && device == other.device; }
  friend bool operator==(const AlgorithmTable&, const AlgorithmTable&) = default;
};

// "cuDNN 9.19.0 on NVIDIA H100 80GB HBM3, 132 multiprocessors"
std::string maker_of(const AlgorithmTable& table);
// What a file of the table is called, and how the names of the same device's tables begin:
// "h100-80gb-hbm3-9.19.0.txt", "h100-80gb-hbm3-".
std::string file_name_of(const AlgorithmTable& table);
std::string file_prefix_of(const AlgorithmTable& table);

// A line for the maker, then one a choice: "WHAT<tab>NAME", and a tab and times where there are any.
std::string to_text(const AlgorithmTable& table);
// Throws UserError for text that `to_text` did not give.
AlgorithmTable read_algorithms(const std::string& text);

}  // namespace tandem
