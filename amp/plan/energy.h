// Energies: costs of binary variables that a minimum cut minimises exactly.
//
// A variable is 1 for 16 bits (source side) and 0 for f32. Terms: a cost per value; u = 1 only if v = 1; a
// cast paid once for all its users. Two labels and
// non-negative casts make the cut exact (project selection: Picard 1976; Kolmogorov and Zabih 2004): every
// assignment extends to a cut of its cost, and every finite cut is one.
//
// Among several minima, the one with the fewest ones is found, which all others contain. It is independent of
// the solver and of the numbering of variables.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tandem::amp::plan {

using Labels = std::vector<bool>;

// Nanoseconds throughout.
class Energy {
 public:
  explicit Energy(int variables);

  int variables() const { return static_cast<int>(costs_.size()); }
  void constant(std::int64_t ns) { constant_ += ns; }
  void cost(int variable, std::int64_t f32, std::int64_t low);
  void fix(int variable, bool low);
  void implies(int u, int v) { implications_.push_back({u, v}); }  // u = 1 only if v = 1
  void tie(int u, int v);
  // ns is paid once when `of` is 0 and any of `users` is 1.
  void down_cast(int of, std::vector<int> users, std::int64_t ns);
  // ns is paid once when `of` is 1 and any of `users` is 0.
  void up_cast(int of, std::vector<int> users, std::int64_t ns);

  // Absent when the labels break an implication or a fixed value.
  std::optional<std::int64_t> of(const Labels& labels) const;

 private:
  friend class EnergyNetwork;
  struct Cost {
    std::int64_t f32 = 0, low = 0;
  };
  struct Cast {
    int of;
    std::vector<int> users;
    std::int64_t ns;
    bool down;
  };

  std::int64_t constant_ = 0;
  std::vector<Cost> costs_;
  std::vector<std::optional<bool>> fixed_;
  std::vector<std::pair<int, int>> implications_;
  std::vector<Cast> casts_;
  bool contradicts_ = false;  // one variable is fixed to both values
};

struct Minimum {
  Labels labels;
  std::int64_t ns = 0;
};

// Absent when fixed values contradict the implications. Throws UserError when costs sum to 2⁶² ns or more.
std::optional<Minimum> minimum(const Energy& energy);

}  // namespace tandem::amp::plan
