// Admission of each box of a file: refused, left out, cut to its image, or taken as it is. The rules are
// of every format; a reader says what its file has.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

// Of one reading, gathered, so that one message counts them all.
class Refusals {
 public:
  // `where` and `why` of the first become the message.
  void add(std::string_view where, std::string why);
  Index count() const { return count_; }
  // Throws UserError when there were any.
  void finish() const;

 private:
  Index count_ = 0;
  std::string where_, why_;
};

// As a file has it.
struct FileBox {
  BoxObject object;            // its box, label, id and flags; `area` is not read
  double width, height;        // of the box, by the file's own numbers
  std::optional<double> area;  // absent: width · height
};

class BoxAdmission {
 public:
  // Both outlive it.
  BoxAdmission(BoxTallies& tallies, Refusals& refusals) : tallies_(tallies), refusals_(refusals) {}

  // Refused: a coordinate or an area that is not finite, a negative size or area. Left out and counted: zero
  // area, nothing within the image. Cut and counted: what reaches over its border. `where` is the file and
  // `which` the annotation, for messages.
  void admit(BoxImage& image, const FileBox& box, std::string_view where, std::string_view which);

 private:
  BoxTallies& tallies_;
  Refusals& refusals_;
};

// Counts, and remembers the first as "[where] which: what".
void tally(Tally& tally, std::string_view where, std::string_view which, std::string_view what);

// "x1 y1 x2 y2" of a box, as messages have it: "[3, 4.5, 20, 30]".
std::string text_of(const Corners& box);

// What training does not learn from: crowds, and with `difficult_too` difficult objects. Counted.
void drop_for_training(BoxCorpus& corpus, bool difficult_too);

}  // namespace tandem::datasets
