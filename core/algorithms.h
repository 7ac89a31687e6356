// Table of the fastest algorithms measured on a device, stored as text between runs.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

struct AlgorithmTable {
  struct Choice {
    std::string name;  // the library's name of the algorithm
    // Measured times by name, to four digits: of the choice and of its alternatives.
    std::vector<std::pair<std::string, float>> milliseconds;
    friend bool operator==(const Choice&, const Choice&) = default;
  };

  // The library and device of these choices, which do not apply to others.
  std::string library;                    // "cuDNN 9.19.0"
  std::string device;                     // "NVIDIA H100 80GB HBM3, 132 multiprocessors"
  std::map<std::string, Choice> choices;  // by op, types and shapes

  bool fits(const AlgorithmTable& other) const { return library == other.library && device == other.device; }
  friend bool operator==(const AlgorithmTable&, const AlgorithmTable&) = default;
};

// "cuDNN 9.19.0 on NVIDIA H100 80GB HBM3, 132 multiprocessors"
std::string maker_of(const AlgorithmTable& table);
// File name of the table, and the common prefix of the same device's files: "h100-80gb-hbm3-9.19.0.txt",
// "h100-80gb-hbm3-".
std::string file_name_of(const AlgorithmTable& table);
std::string file_prefix_of(const AlgorithmTable& table);

// One line for the maker, then one per choice: "WHAT<tab>NAME", and a tab and times if any.
std::string to_text(const AlgorithmTable& table);
// Throws UserError for text in another format than `to_text`.
AlgorithmTable read_algorithms(const std::string& text);

}  // namespace tandem
